"""Compaction of merge-on-read tables: the log files of file groups merged into new base files."""
