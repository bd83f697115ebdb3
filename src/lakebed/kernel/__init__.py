"""Machinery that knows no format and no Spark: storage, predicates, engines, merging, keys, commits."""
