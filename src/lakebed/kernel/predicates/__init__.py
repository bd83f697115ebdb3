"""Predicates: `where` as SQL text or a pyarrow expression, the tree that both become, and what statistics say of it."""
