"""What each verb promises, as one pytest suite per verb, the same for every format.

A format subclasses a suite in a test module and provides its fixtures. Each test then runs on the format's tables:

    class TestRead(ReadConformance):
        @pytest.fixture
        def table(self): return lakebed.open(...)

The suites compare a table with itself: a predicate with a filter of all rows, changes with snapshots. Whether the rows
are the right ones is tested elsewhere, with golden tables and other engines.
"""

from lakebed.testing.conformance.changes import ChangesConformance
from lakebed.testing.conformance.lacks import LacksConformance
from lakebed.testing.conformance.read import ReadConformance
from lakebed.testing.conformance.rollback import RollbackConformance
from lakebed.testing.conformance.rows import bag, replay
from lakebed.testing.conformance.stream import StreamConformance
from lakebed.testing.conformance.write import WRITE_SCHEMA, WriteConformance, write_rows

__all__ = [
    "WRITE_SCHEMA",
    "ChangesConformance",
    "LacksConformance",
    "ReadConformance",
    "RollbackConformance",
    "StreamConformance",
    "WriteConformance",
    "bag",
    "replay",
    "write_rows",
]
