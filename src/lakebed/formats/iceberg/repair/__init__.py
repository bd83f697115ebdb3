"""Repair: files that manifests name and that are gone or damaged, and a snapshot without them."""
