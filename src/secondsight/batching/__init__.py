"""Several inputs at a time: operators that meet so that one pass answers all, and the threads that they run in."""
