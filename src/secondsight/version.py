"""The version, in a file of its own so that a build can read it without importing the package."""

__version__ = "0.2.0.dev0"
"""The number in the code: pyproject.toml reads it from here. CITATION.cff repeats it."""
