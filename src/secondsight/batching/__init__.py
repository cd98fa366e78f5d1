"""Several inputs at a time: operators that share passes through the network, and the threads that solve the inputs."""
