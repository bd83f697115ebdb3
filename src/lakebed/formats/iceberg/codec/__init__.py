"""Bytes to values and back, with no I/O, so that each codec can be fuzzed alone."""
