"""Expiry of a Hudi table: the clean of file slices that nothing retained needs."""
