"""Catalogs: where tables are known by name. A warehouse folder, a database over JDBC's tables, or a REST server."""
