"""Relocating a table that was moved or copied: its metadata gets the paths of the new place."""
