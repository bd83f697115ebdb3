"""A compaction that began before the table was altered does not replace files that were written after that."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError
from lakebed.kernel.files import open_store
from lakebed.testing.faults import FaultyStore
from tests.tables.leftovers import leftovers
from tests.tables.paimon.small import Make, rows

CHANGES = {
    "a column": (lakebed.add_column("more", "int64"), "more"),
    "a wider type": (lakebed.widen("n", "int64"), "n"),
}
LARGE = 1 << 40


class Altered(FaultyStore):
    """A process that has read its schema when another one alters the table."""

    def __init__(self, folder: str, act: Callable[[], object]) -> None:
        super().__init__(open_store(folder))
        self.acts = [act]

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        if path.startswith("snapshot/") and self.acts:
            self.acts.pop()()
        return super().read(path, start, length)


def alter(location: str, kind: str) -> None:
    change, column = CHANGES[kind]
    table = lakebed.open(location, {"write-only": "true"})
    table.alter(change)
    data = rows(("a", 2, "v", 2))
    data = data.drop_columns(["n"]) if column == "n" else data
    table.write(data.append_column(column, pa.array([LARGE], pa.int64())))


def values(location: str, kind: str) -> list[int | None]:
    return [row[CHANGES[kind][1]] for row in lakebed.open(location).read(where="id = 2").read_all().to_pylist()]


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("keyed", [True, False])
def test_a_rewrite_that_was_planned_before_is_a_conflict(make: Make, kind: str, keyed: bool) -> None:
    table = make(**({"bucket": "1"} if keyed else {"primary_key": (), "bucket": "-1"}), write__only="true")
    for number in (1, 1):
        table.write(rows(("a", number, "v", 1)))
    late = lakebed.open(Altered(table.location, lambda: alter(table.location, kind)))
    options = {"write-only": "false", "compaction.min.file-num": "2"}
    with pytest.raises(CommitConflictError, match="altered meanwhile"):
        late.rewrite(options=options)
    assert values(table.location, kind) == [LARGE]
    assert leftovers(table) == set()
    lakebed.open(table.location).rewrite(options=options)
    assert values(table.location, kind) == [LARGE]


@pytest.mark.parametrize("kind", CHANGES)
def test_a_writer_that_was_opened_before_compacts_nothing_of_it(make: Make, kind: str) -> None:
    table = make(bucket="1", num__sorted__run_compaction__trigger="2")
    table.write(rows(("a", 1, "v", 1)))
    writer = table.writer("job")
    alter(table.location, kind)
    writer.write(rows(("a", 3, "v", 3)))
    result = writer.commit(1, writer.prepare_commit())
    assert values(table.location, kind) == [LARGE]
    assert any("altered meanwhile" in note for note in result.notes)
    assert leftovers(table) == set()
