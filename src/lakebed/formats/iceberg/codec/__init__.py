"""Bytes to values and back. Codecs do no I/O, so each can be fuzzed alone."""
