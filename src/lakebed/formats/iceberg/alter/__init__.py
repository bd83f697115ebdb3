"""Changes of a table's definition: its schema, partition spec, sort order, properties and format version."""
