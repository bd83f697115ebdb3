"""Iceberg's metadata tables, with the names, columns and types that the reference engine gives them in Spark."""
