"""Parquet files beyond what Arrow reads and writes: joined without decoding, checked and annotated."""
