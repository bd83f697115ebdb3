"""Rows on their way into a table: conform them to its schema, and find the kind of each."""
