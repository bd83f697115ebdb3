"""Writes: rows are routed to tasks, sorted, and written into files, which a commit makes visible."""
