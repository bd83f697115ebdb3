"""Deterministic simulation: several processes at work on one table, where one seed decides everything that happens.

    report = simulate(drawn("paimon", seed=7))
    assert not report.failure, report.failure
    shorter = shrunk(report)                    # of one that failed

Writers, readers and services are interleaved at their storage calls. Calls fail before or after their effect, do not
say what they did, take long, or are the last of their process. Clocks differ, drift and are set. Whatever the table
publishes is compared with a model (`model.py`). docs/simulation.md says what is promised and how to run it.
"""

from lakebed.testing.simulation.changes import Violation
from lakebed.testing.simulation.run import Report, drawn, simulate
from lakebed.testing.simulation.schedule import Actor, Fault, Hold, Kind, Schedule, Step, StoreKind, Switch
from lakebed.testing.simulation.shrink import shrunk

__all__ = [
    "Actor", "Fault", "Hold", "Kind", "Report", "Schedule", "Step", "StoreKind", "Switch", "Violation", "drawn",
    "shrunk", "simulate",
]  # fmt: skip
