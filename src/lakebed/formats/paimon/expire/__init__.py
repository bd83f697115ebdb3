"""Expiry: which snapshots may go, which files only they need, and the removal of both."""
