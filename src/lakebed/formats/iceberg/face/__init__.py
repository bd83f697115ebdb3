"""What an Iceberg table can do, by the kind of thing that is done. `table.py` puts the parts together."""
