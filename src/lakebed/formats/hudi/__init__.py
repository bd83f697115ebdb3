"""Apache Hudi: timeline, file groups and file slices, log files, merging. Table versions 5, 6, 8 and 9.

lakebed reads these tables and archives their timelines. What a write side adds has its places in the skeleton that all
formats share: `write/` for a task's files, `commit/` for the timeline of a write, `rewrite/` for compaction and
clustering, `expire/` for cleaning.
"""
