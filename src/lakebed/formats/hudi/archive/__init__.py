"""Archive a Hudi timeline: plan.py decides and says why, run.py does it, and the other modules are its steps."""
