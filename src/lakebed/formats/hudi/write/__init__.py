"""Write rows to Hudi tables."""
