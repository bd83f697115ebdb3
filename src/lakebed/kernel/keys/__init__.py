"""Hashes of keys and distinct keys, on whole Arrow columns."""
