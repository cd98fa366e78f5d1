"""Piecewise-linear networks written down as linear steps: recording, transposing, joining, folding."""
