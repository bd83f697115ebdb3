"""What each verb promises, as one pytest suite a verb, the same for every format. Needs pytest.

A format subclasses a suite in a test module and gives its fixtures; each test then runs on its tables:

    class TestRead(ReadConformance):
        @pytest.fixture
        def table(self): return lakebed.open(...)

The suites hold a table against itself (a predicate against a filter of all rows, changes against snapshots); that all
rows are the right ones is for golden tables and outside readers to say.
"""

from lakebed.testing.conformance.changes import ChangesConformance
from lakebed.testing.conformance.lacks import LacksConformance
from lakebed.testing.conformance.read import ReadConformance
from lakebed.testing.conformance.rows import bag, replay
from lakebed.testing.conformance.stream import StreamConformance
from lakebed.testing.conformance.write import WRITE_SCHEMA, WriteConformance, write_rows

__all__ = [
    "WRITE_SCHEMA", "ChangesConformance", "LacksConformance", "ReadConformance", "StreamConformance",
    "WriteConformance", "bag", "replay", "write_rows",
]  # fmt: skip
