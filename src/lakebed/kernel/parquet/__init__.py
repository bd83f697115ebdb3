"""Parquet files beyond what Arrow's reader and writer do: their footers, and joining them without decoding."""
