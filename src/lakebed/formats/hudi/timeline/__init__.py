"""The timeline of a Hudi table: active instants, archived ones, and the manifest of the archive."""
