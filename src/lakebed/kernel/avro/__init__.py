"""Avro: container files and records, to Arrow columns and back."""
