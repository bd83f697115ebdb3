"""The metadata table: an index of a table's files, kept as a table of its own in `.hoodie/metadata`."""
