"""Removing what nothing needs: old snapshots with their files, and files that no snapshot knows."""
