"""The timeline of a Hudi table: active instants, archived instants, and the manifest of the archive."""
