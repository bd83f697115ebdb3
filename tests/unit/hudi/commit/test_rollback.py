"""Failed writes that another engine left: rolled back from its markers, or from its own half-done rollback."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import ReadWarning
from lakebed.formats.hudi.codec.plans import InstantInfo, RollbackPlan, RollbackRequest, encode
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.rollback import plan_rollback, roll_back_failed
from lakebed.formats.hudi.commit.transaction import Transaction
from lakebed.formats.hudi.config import load_config
from lakebed.formats.hudi.timeline.active import MetadataFiles
from lakebed.kernel.files import open_store
from lakebed.kernel.options import Options
from lakebed.kernel.scratch import Scratch
from lakebed.testing.faults import FaultyStore
from tests.golden import unpack
from tests.tables.hudi.fresh import fresh_table


def context_of(table: Path) -> WriteContext:
    store = open_store(str(table))
    return WriteContext(store, load_config(store), Options({}, {}), MetadataFiles(store), Scratch(""))


def rows(table: Path) -> list[object]:
    read: list[object] = lakebed.open(str(table)).read(["_hoodie_record_key", "ts"]).read_all().to_pylist()
    return sorted(read, key=str)


@pytest.mark.parametrize("root", ["/another/place", "file:/tmp/golden/hudi/mor_rollback_v9", "s3://bucket/table"])
def test_a_half_done_rollback_deletes_its_files_however_their_locations_are_spelled(root: str, tmp_path: Path) -> None:
    table = unpack("hudi", "mor_rollback_v9", tmp_path)
    timeline = table / ".hoodie" / "timeline"
    failed = next(p.name[:17] for p in sorted(timeline.glob("*.deltacommit.inflight"), reverse=True))
    before = rows(table)
    names = [p.relative_to(table) for p in table.glob(f"*/.*_{failed}.log.*")]
    assert names
    requests = tuple(
        RollbackRequest(partition_path=str(name.parent), files_to_be_deleted=(f"{root}/{name}",)) for name in names
    )
    info = InstantInfo(commit_time=failed, action="deltacommit")
    plan = encode(RollbackPlan(instant_to_rollback=info, requests=requests))
    (timeline / "20261127999999999.rollback.requested").write_bytes(plan)
    context = context_of(table)
    with context.locked() as held:
        assert roll_back_failed(context, context.timeline(), held) == (failed,)
    assert not list(table.glob(f"*/.*_{failed}.log.*"))
    assert not list(timeline.glob(f"{failed}.*"))
    assert rows(table) == before


def test_a_plan_that_names_the_table_takes_blocks_back_too(tmp_path: Path) -> None:
    table = unpack("hudi", "mor_rollback_v6", tmp_path)
    failed = next(p.name[:17] for p in sorted((table / ".hoodie").glob("*.deltacommit.inflight"), reverse=True))
    before = rows(table)
    logs = sorted(table.glob("a/.*.log.*"))
    base = logs[-1].name.partition("_")
    request = RollbackRequest(
        partition_path="a",
        file_id=base[0].removeprefix("."),
        latest_base_instant=base[2].partition(".")[0],
        log_blocks_to_be_deleted={"/tmp/golden/hudi/mor_rollback_v6": 1},
    )
    info = InstantInfo(commit_time=failed, action="deltacommit")
    plan = encode(RollbackPlan(instant_to_rollback=info, requests=(request,)))
    (table / ".hoodie" / "20261127999999999.rollback.requested").write_bytes(plan)
    context = context_of(table)
    with context.locked() as held:
        assert roll_back_failed(context, context.timeline(), held) == (failed,)
    (command,) = set(table.glob("a/.*.log.*")) - set(logs)
    assert failed.encode() in command.read_bytes() and command.stat().st_size == 105
    assert rows(table) == before


def test_an_old_marker_of_an_append_never_deletes_the_base_file_whose_name_it_has(tmp_path: Path) -> None:
    table = unpack("hudi", "mor_rollback_v6", tmp_path)
    context = context_of(table)
    entry = next(e for e in context.timeline().pending if e.state == "inflight")
    base = next(iter(sorted(table.glob("a/*.parquet"))))
    marker = table / ".hoodie" / ".temp" / entry.time / "a" / f"{base.name}.marker.APPEND"
    marker.parent.mkdir(parents=True)
    marker.write_bytes(b"")
    plan = plan_rollback(context, entry)
    (request,) = plan.requests or ()
    assert request.files_to_be_deleted == () and request.log_blocks_to_be_deleted
    assert request.latest_base_instant == base.name.rpartition("_")[2].partition(".")[0]


def test_without_markers_a_plan_takes_back_blocks_of_all_groups_that_were_to_be_updated(tmp_path: Path) -> None:
    table = unpack("hudi", "mor_rollback_v6", tmp_path)
    context = context_of(table)
    before = rows(table)
    failed = next(e.time for e in context.timeline().pending if e.state == "inflight")
    holding = {p.parent.name for p in table.glob("*/.*.log.*") if failed.encode() in p.read_bytes()}
    logs = set(table.glob("*/.*.log.*"))
    with context.locked() as held:
        assert roll_back_failed(context, context.timeline(), held) == (failed,)
    assert holding and {p.parent.name for p in set(table.glob("*/.*.log.*")) - logs} >= holding
    assert rows(table) == before


@pytest.mark.parametrize("version", [6, 9])
def test_an_empty_completed_file_is_ended_by_what_the_report_names(tmp_path: Path, version: int) -> None:
    """A crash left a compaction's completed file empty, then that of a write."""
    schema = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.int64())])
    table = fresh_table(tmp_path, schema, version=version, kind="MERGE_ON_READ")
    folder = tmp_path / ".hoodie" / ("timeline" if version == 9 else "")

    def write(value: int) -> str:
        return table.write(pa.table([["a"], [1], [value]], schema=schema), "upsert").instant

    def emptied(instant: str) -> str:
        done = [*folder.glob(f"{instant}.*commit"), *folder.glob(f"{instant}_*commit")]
        done[0].write_bytes(b"")
        remedies = [finding.remedy for finding in table.inspect().findings if "is empty" in finding.what]
        return remedies[0]

    def values() -> list[int]:
        found: list[int] = lakebed.open(tmp_path).read(["v"]).read_all()["v"].to_pylist()
        return found

    write(1)
    write(2)
    (instant,) = table.rewrite().instants
    assert f"lakebed.rewrite.instant={instant}" in emptied(instant)
    assert values() == [2]
    table.rewrite(options={"lakebed.rewrite.instant": instant, "lakebed.rewrite.step": "run"})
    assert values() == [2] and all(i.state == "completed" for i in table.history())
    assert "failed-writes" in emptied(write(3))
    with pytest.warns(ReadWarning, match="is empty"):
        assert values() == [2]
    table.expire(options={"lakebed.expire.what": "failed-writes", "lakebed.expire.failed.after": "0 s"})
    assert values() == [2] and all(i.state == "completed" for i in table.history())
    write(4)
    assert values() == [4]


def test_writers_that_live_cost_the_next_one_no_write_and_no_listing(tmp_path: Path) -> None:
    """What a writer does in its turn grows by reads of their heartbeats alone."""
    table = fresh_table(tmp_path / "t", pa.schema([("dt", pa.string()), ("id", pa.int64())]))
    asked, begun = [], list[Transaction]()
    for _ in range(4):
        store = FaultyStore(open_store(table.location))
        context = WriteContext(store, load_config(store), Options({}, {}), MetadataFiles(store), Scratch(""))
        begun.append(Transaction.begin(context, "commit", "UPSERT"))
        asked.append((len(store.changes), sum(call.verb == "list" for call in store.calls)))
    for transaction in begun:
        transaction.leave()
    assert len({*asked[1:]}) == 1 and asked[1][1] == 1, asked  # the first one makes the metadata table
