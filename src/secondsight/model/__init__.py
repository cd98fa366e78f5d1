"""A user's network made safe to explain, and what is found out about it."""
