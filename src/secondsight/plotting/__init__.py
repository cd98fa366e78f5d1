"""From arrays to figures. Nothing here knows networks, solvers or torch."""
