"""Expiring old snapshots with their files, and removing orphan files."""
