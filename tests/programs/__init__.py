"""Spark as users run it: a cluster, a Connect server, the demo interrupted. `./run interop` runs these tests."""
