"""Rewrite of a Paimon table's files: rows of postponed buckets get real ones."""
