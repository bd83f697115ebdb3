"""DataFusion sessions that keep the order of rows. The library is loaded when first used: few commands need it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def ordered_session(batch_rows: int) -> Any:
    """A SessionContext of one partition, whose batches have `batch_rows` rows at most, in the order of the file."""
    datafusion = import_module("datafusion")  # half a second, which start-up need not pay
    config = datafusion.SessionConfig().with_target_partitions(1).with_repartition_file_scans(False)
    return datafusion.SessionContext(config.with_batch_size(batch_rows))
