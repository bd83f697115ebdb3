"""The commit of a Hudi write: its instant, its metadata, its conflicts, and how a failed write is undone."""
