"""Where a table is registered: by its path alone, or in a catalog. Loads its metadata and publishes the next."""
