"""Rewriting Iceberg tables: data files into files of the target size."""
