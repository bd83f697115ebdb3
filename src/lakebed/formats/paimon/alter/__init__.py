"""Changes of a table's definition: new versions of its schema."""
