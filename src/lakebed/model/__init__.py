"""Frozen, picklable values that pass between plan, do and commit, or to the caller. No I/O, no format, no Spark."""
