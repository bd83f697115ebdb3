"""Rows on their way into a table: conformed to its schema, with a row kind each."""
