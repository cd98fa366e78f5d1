"""Runs over whole datasets: explained in chunks, stored as Parquet files, resumed where they were cut short."""
