"""The two-phase write of one process: `lakebed.verbs.two_phase`."""

from lakebed.verbs.two_phase import TableWriter, batches_of

__all__ = ["TableWriter", "batches_of"]
