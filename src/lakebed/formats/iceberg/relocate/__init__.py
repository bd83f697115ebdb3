"""Giving a table that was moved or copied the place where it lies."""
