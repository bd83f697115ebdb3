"""Log compaction: many blocks of a log become one, and every read stays as it was."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.codec.log import parse_log
from lakebed.formats.hudi.rewrite import log_compact

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.string()), ("_hoodie_is_deleted", pa.bool_())])
WHAT = {"lakebed.rewrite.what": "log-compaction", "hoodie.log.compaction.blocks.threshold": "3"}


def told(folder: Path, version: int, ordering: str) -> Table:
    """A table with a log: late rows, deletes by key and by a flag, and a row that came back."""
    options = {
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.write.table.version": version,
        "hoodie.table.ordering.fields": ordering,
    }
    table = lakebed.create(folder, "hudi", SCHEMA, ["id"], options=options)
    write(table, *((key, 5, "first") for key in "abcdef"))
    write(table, ("a", 6, "second"), ("b", 1, "late"), ("c", 7, None, True))
    table.write(rows(("d", 0, None), ("e", 0, None)), mode="delete")
    write(table, ("e", 9, "back"), ("f", 9, "f"))
    return table


def rows(*given: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=False)) for row in given], SCHEMA)


def write(table: Table, *given: tuple[Any, ...]) -> None:
    table.write(rows(*given), mode="upsert")


def reads(table: Table) -> list[Any]:
    """The snapshot, and the changes of each commit."""
    found = [sorted(table.read(["_hoodie_commit_time", "id", "ts", "v"]).read_all().to_pylist(), key=str)]
    moments = [i for i in table.history() if (i.state, i.action) == ("completed", "deltacommit")][:4]
    for kind in ("false", "true"):
        full = lakebed.open(table.location, {"cdc.enabled": kind})
        for after, until in itertools.pairwise(moments):
            found.append(sorted(full.changes(["id", "v"], after=after, until=until).read_all().to_pylist(), key=str))
        found.append(sorted(full.changes(["id", "v"], after=moments[0], until=None).read_all().to_pylist(), key=str))
    return found


@pytest.mark.parametrize(("version", "ordering"), [(6, "ts"), (8, ""), (9, "ts")])
def test_reads_are_the_same_after_it(tmp_path: Path, version: int, ordering: str) -> None:
    table = told(tmp_path / "t", version, ordering)
    before = reads(table)
    early = table.rewrite(dry_run=True, options={**WHAT, "hoodie.log.compaction.blocks.threshold": "9"})
    assert not early.groups and "blocks, fewer than" in early.skipped[0].reason
    done = table.rewrite(options=WHAT)
    (instant,) = done.instants
    assert done.groups == done.files_after == 1
    assert [i.action for i in table.history()][-1] == "deltacommit" and table.history()[-1].time == instant
    (newest,) = [
        p
        for p in Path(table.location).glob(".*.log.*")
        if any(b.compacted_instants for b in parse_log(p.read_bytes()).blocks)
    ]
    assert {b.kind.name for b in parse_log(newest.read_bytes()).blocks} == {"AVRO_DATA", "DELETE"}
    assert reads(table) == before
    write(table, ("a", 20, "after"), ("b", 3, "late again"))
    write(table, ("g", 1, "new"))
    held = {row["id"]: row["v"] for row in table.read(["id", "v"]).read_all().to_pylist()}
    wanted = {"a": "after", "b": "first" if ordering else "late again", "e": "back", "f": "f", "g": "new"}
    assert held == wanted
    again = table.rewrite(options={**WHAT, "hoodie.log.compaction.blocks.threshold": "2"})
    assert again.groups == 1
    assert {row["id"]: row["v"] for row in table.read(["id", "v"]).read_all().to_pylist()} == held
    table.rewrite()
    assert {row["id"]: row["v"] for row in table.read(["id", "v"]).read_all().to_pylist()} == held


def test_a_plan_is_run_or_withdrawn_and_leaves_out_what_changed(tmp_path: Path) -> None:
    table = told(tmp_path / "t", 9, "")
    (instant,) = table.rewrite(options={**WHAT, "lakebed.rewrite.step": "schedule"}).instants
    assert [i.action for i in table.history()][-1] == "logcompaction"
    assert (
        "has taken it" in table.rewrite(dry_run=True, options={"lakebed.rewrite.what": "compaction"}).skipped[0].reason
    )
    write(table, ("a", 30, "newer"))
    ran = table.rewrite(options={**WHAT, "lakebed.rewrite.step": "run"})
    assert ran.instants == (instant,) and "since the plan" in ran.skipped[0].reason and not ran.files_after
    table.rewrite(options={**WHAT, "lakebed.rewrite.step": "schedule"})
    withdrawn = table.rewrite(options={**WHAT, "lakebed.rewrite.step": "withdraw"})
    assert "is withdrawn" in withdrawn.notes[0]
    assert not [i for i in table.history() if i.state != "completed"]


def test_a_run_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = told(tmp_path / "t", 6, "ts")
    before, files = table.history(), sorted(Path(table.location).glob(".*.log.*"))

    def fail(*_: Any) -> Any:
        raise OSError("disk")

    with monkeypatch.context() as patch:
        patch.setattr(log_compact, "delete_block", fail)
        with pytest.raises(OSError, match="disk"):
            table.rewrite(options=WHAT)
    assert table.history() == before and sorted(Path(table.location).glob(".*.log.*")) == files
    with pytest.raises(UnsupportedError, match="no logs"):
        lakebed.create(tmp_path / "cow", "hudi", SCHEMA, ["id"]).rewrite(options=WHAT)
