"""Rewriting data files into files of the target size, position delete files, and manifests."""
