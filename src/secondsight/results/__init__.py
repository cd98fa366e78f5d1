"""What an explanation is, and how it is made from a solver's path."""
