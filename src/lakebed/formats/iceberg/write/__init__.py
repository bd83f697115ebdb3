"""Writing Iceberg data files."""
