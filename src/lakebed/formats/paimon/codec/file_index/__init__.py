"""File indexes: what a data file holds, in bytes beside it or in its manifest entry (Paimon's `fileindex` package)."""
