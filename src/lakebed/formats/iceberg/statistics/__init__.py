"""Statistics of a table that are kept beside its snapshots."""
