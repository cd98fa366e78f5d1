"""A user's network made safe to explain, what is found out about it, and photographs turned into its inputs."""
