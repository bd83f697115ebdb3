"""Predicates: `where` as text or a pyarrow expression, and what statistics say of it."""
