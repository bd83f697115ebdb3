"""Tables that change: what they read afterwards, two writers, writers from before."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import SchemaError, UnsupportedError, UsageError
from lakebed.kernel.files import Store, open_store
from lakebed.model.alter import Change
from lakebed.testing.faults import Fault, FaultyStore, Kind
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits
from tests.tables.paimon.small import Make, contents, rows


def test_rows_of_all_versions_are_read(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "x", 5)))
    planned = table.alter([lakebed.add_column("price", "DECIMAL(5, 2)", default="1.5")], dry_run=True)
    assert planned.dry_run and planned.version == "1" and "price" not in table.schema.names
    done = table.alter([lakebed.add_column("price", "DECIMAL(5, 2)", default="1.5"), lakebed.widen("n", "string")])
    assert done.changes[:1] == planned.changes[:1] and done.version == "1" and done.schema == table.schema
    assert any("keep their nulls" in note for note in done.notes)
    table.write(pa.Table.from_pylist([{"dt": "a", "id": 2, "v": "y", "n": "many"}]))
    assert contents(table) == [("a", 1, "x", "5", None), ("a", 2, "y", "many", Decimal("1.50"))]
    assert contents(table, as_of=1) == [("a", 1, "x", 5)]
    assert contents(table, where="n = '5'") == [("a", 1, "x", "5", None)]
    table.alter(lakebed.drop_column("v"))
    table.alter(lakebed.add_column("v", "INT", first=True))
    assert contents(table, columns=["id", "v"]) == [(1, None), (2, None)]
    assert table.alter(lakebed.set_option("bucket", "2")).notes == ("nothing changes",)
    assert table.alter(lakebed.set_option("bucket", "2")).version == "3"


def test_a_writer_from_before_the_change(make: Make) -> None:
    table = make()
    writer = table.writer("job")
    writer.write(rows(("a", 1, "x", 5)))
    lakebed.open(table.location).alter([lakebed.rename_column("v", "w"), lakebed.drop_column("n")])
    writer.commit(1, writer.prepare_commit())
    assert contents(table) == [("a", 1, "x")]
    assert table.schema.names == ["dt", "id", "w"]


def test_a_commit_of_an_older_writer_keeps_the_schema_of_snapshots(make: Make) -> None:
    """As of a snapshot, a read has the columns of its time, whoever wrote it."""
    table = make()
    writer = table.writer("job")
    writer.write(rows(("a", 1, "x", 5)))
    other = lakebed.open(table.location)
    other.alter(lakebed.add_column("more", "INT"))
    other.write(pa.Table.from_pylist([{"dt": "a", "id": 2, "more": 7}]))
    writer.commit(1, writer.prepare_commit())
    assert contents(other, columns=["id", "more"], as_of=2) == [(1, None), (2, 7)]


def test_changes_go_on_over_a_change(make: Make) -> None:
    table = make()
    early = lakebed.open(table.location)
    table.write(rows(("a", 1, "x", 5)))
    table.alter(lakebed.add_column("more", "INT"))
    table.write(pa.Table.from_pylist([{"dt": "a", "id": 2, "more": 7}]))
    changes = early.changes().read_all().to_pylist()
    assert [(row["id"], row["more"]) for row in sorted(changes, key=lambda row: row["id"])] == [(1, None), (2, 7)]


def test_a_stream_from_before_the_change(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "x", 5)))
    stream = lakebed.open(table.location, {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}).stream()
    first = stream.latest(stream.initial(), Limits())
    table.alter([lakebed.add_column("more", "INT"), lakebed.widen("n", "BIGINT")])
    table.write(pa.Table.from_pylist([{"dt": "a", "id": 2, "more": 7, "n": 1 << 40}]))
    second = stream.latest(first, Limits())
    assert run(stream.plan(first, second), 1).read_all().to_pylist() == [
        {"dt": "a", "id": 2, "v": None, "n": 1 << 40, "_row_kind": "+I"}
    ]
    table.alter(lakebed.rename_column("n", "m"))
    with pytest.raises(SchemaError, match="unknown column 'n'"):
        stream.latest(second, Limits())


def test_two_writers(make: Make) -> None:
    """The second one builds on the first one's version, or learns that its change does not hold any more."""
    location = make().location

    def beside(change: Change) -> FaultyStore:
        """A store in which another writer makes a change just before ours."""

        def rival(store: Store) -> None:
            lakebed.open(store).alter(change)

        return FaultyStore(open_store(location), Fault(1, Kind.EXISTS, rival=rival))

    done = lakebed.open(beside(lakebed.add_column("theirs", "INT"))).alter(lakebed.add_column("ours", "INT"))
    assert done.version == "2" and lakebed.open(location).schema.names[-2:] == ["theirs", "ours"]
    with pytest.raises(SchemaError, match="no column 'ours'"):
        lakebed.open(beside(lakebed.drop_column("ours"))).alter(lakebed.rename_column("ours", "mine"))


@pytest.mark.parametrize("kind", [Kind.UNKNOWN_AFTER, Kind.ERROR_AFTER, Kind.ERROR_BEFORE, Kind.UNKNOWN_BEFORE])
def test_a_store_without_an_answer(make: Make, kind: Kind) -> None:
    location = make().location
    store = FaultyStore(open_store(location), Fault(1, kind))
    done = lakebed.open(store).alter(lakebed.add_column("new", "INT"))
    assert done.version == "1" and lakebed.open(location).schema.names[-1] == "new"


def test_a_branch_changes_alone(make: Make, tmp_path: Path) -> None:
    table = make()
    table.write(rows(("a", 1, "x", 5)))
    folder = Path(table.location)
    (folder / "branch/branch-b/schema").mkdir(parents=True)
    (folder / "branch/branch-b/schema/schema-0").write_bytes((folder / "schema/schema-0").read_bytes())
    branch = lakebed.open(folder, {"branch": "b"})
    branch.alter([lakebed.add_column("new", "INT"), lakebed.set_option("merge-engine", "first-row")])
    assert "new" in branch.schema.names and "new" not in table.schema.names


@pytest.mark.parametrize("wrong", [{}, [], "add", [{"add": 1}], None])
def test_what_is_no_change(make: Make, wrong: Any) -> None:
    with pytest.raises(UsageError, match="change"):
        make().alter(wrong)


def test_other_formats_say_so() -> None:
    with pytest.raises(UnsupportedError, match="no alter for hudi tables yet"):
        lakebed.open(lakebed.example("orders")).alter(lakebed.drop_column("x"))
