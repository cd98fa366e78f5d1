"""Runs over whole datasets: explained in chunks, stored as Parquet files, resumed where they were cut short."""

from secondsight.errors import SecondsightError

try:
    import filelock  # noqa: F401
    import pyarrow  # noqa: F401
except ImportError as error:
    raise SecondsightError(f"runs need {error.name}: pip install 'secondsight[batch]'") from None
