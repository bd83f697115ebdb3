"""Statistics of new data files, as manifests hold them."""
