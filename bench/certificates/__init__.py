"""The campaign against our own certificates: random problems, each held against a dense float64 optimum."""
