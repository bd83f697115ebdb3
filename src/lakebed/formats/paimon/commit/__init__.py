"""Commits: messages to manifests to one snapshot, checked for conflicts, then claimed by its name."""
