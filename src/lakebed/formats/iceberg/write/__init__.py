"""The write side: the sink, its tasks, data files with their statistics, row-level deletes, and the commit."""
