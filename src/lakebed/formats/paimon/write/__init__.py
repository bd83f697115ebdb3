"""Writing: rows routed, sorted and written into files, and the commit that makes them visible."""
