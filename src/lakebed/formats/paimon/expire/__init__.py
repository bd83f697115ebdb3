"""Expiry: which snapshots go, which files only they need, and the removal of both."""
