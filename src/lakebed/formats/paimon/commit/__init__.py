"""Committing: messages to manifests to one snapshot, checked for conflicts, claimed by its name."""
