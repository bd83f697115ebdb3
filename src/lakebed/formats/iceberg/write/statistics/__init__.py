"""Column metrics of new data files, as manifest entries hold them."""
