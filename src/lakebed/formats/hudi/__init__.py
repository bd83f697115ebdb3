"""Apache Hudi: timeline, file groups and slices, log files, merging. Table versions 5, 6, 8 and 9."""
