"""Bytes to values and back, without I/O, so that each codec can be fuzzed alone."""
