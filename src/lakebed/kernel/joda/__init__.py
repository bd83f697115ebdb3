"""Dates as Joda-Time reads and writes them: its patterns, and Java's names of time zones."""
