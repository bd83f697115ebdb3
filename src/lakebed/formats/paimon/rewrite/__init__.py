"""Rewrites of a Paimon table's files. Today: rows of postponed buckets move into real buckets."""
