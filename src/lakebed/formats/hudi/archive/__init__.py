"""Archival of a Hudi timeline: plan.py decides and says why, run.py does it; the other modules are its steps."""
