"""Frozen, picklable values that travel between plan, do and commit. No I/O, no format, no Spark."""
