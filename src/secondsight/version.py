"""The version, apart from the package so that building a wheel imports nothing else."""

__version__ = "0.1.0"
