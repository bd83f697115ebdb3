"""Snapshots and refs beside Iceberg's own engine: the same acts on two tables of one history, by its procedures on one
and by lakebed on the other, leave the same refs, snapshot logs and summaries, and the same acts are refused. Then each
goes on with the other's table, and pyiceberg and DuckDB read both."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import lakebed
from lakebed.errors import LakebedError
from lakebed.formats.iceberg.table import IcebergTable
from tests.interop.hudi_ask import ask
from tests.interop.iceberg_ask import ENGINES, spark_answers
from tests.tables.iceberg.small import create, ids

pytestmark = pytest.mark.timeout(1800)
DAY = 86_400_000
LINKS = ("operation", "wap.id", "published-wap-id", "replace-partitions", "added-records", "deleted-records",
         "total-records", "total-data-files")  # fmt: skip


def rows(*numbers: int, p: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "p": [p] * len(numbers)})


def opened(table: lakebed.Table, **options: str) -> IcebergTable:
    again = lakebed.open(table.location, {key.replace("_", "."): text for key, text in options.items()})
    assert isinstance(again, IcebergTable)
    return again


def history(path: Path, version: int) -> tuple[IcebergTable, dict[str, str]]:
    """A table with three snapshots and four staged ones, and their ids."""
    table = create(path, version, **{"write.wap.enabled": "true"})

    def write(data: pa.Table, mode: str = "append", **options: str) -> str:
        return table.write(data, mode, {key.replace("_", "."): text for key, text in options.items()}).instant

    made = {"first": write(rows(0)), "second": write(rows(1)), "third": write(rows(5, p="b"))}
    made["one"] = write(rows(10), wap_id="one")
    made["two"] = write(rows(11, p="c"), wap_id="two")
    made["three"] = write(rows(6, p="b"), "overwrite", wap_id="three")
    made["late"] = write(rows(7, p="b"), "overwrite", wap_id="late")
    made["whole"] = table.write(rows(9), "overwrite", {"wap.id": "whole", "overwrite-mode": "static"}).instant
    table.branch("side", at=made["first"])
    return table, made


Act = tuple[str, Callable[[IcebergTable], Any]]


def acts(made: dict[str, str]) -> list[Act]:
    """The same acts as SQL on `{t}` (`{c}` its catalog, `{n}` its name there) and by lakebed."""
    return [
        ("CALL {c}.system.publish_changes('{n}', 'one')", lambda t: t.publish("one")),
        ("CALL {c}.system.publish_changes('{n}', 'two')", lambda t: t.publish("two")),
        ("CALL {c}.system.cherrypick_snapshot('{n}', {three})", lambda t: t.cherry_pick(int(made["three"]))),
        ("ALTER TABLE {t} CREATE TAG whole_week RETAIN 7 DAYS", lambda t: t.tag("whole_week", time_retained="7 d")),
        (
            "ALTER TABLE {t} CREATE BRANCH kept AS OF VERSION {second} RETAIN 9 DAYS "
            "WITH SNAPSHOT RETENTION 2 SNAPSHOTS 3 DAYS",
            lambda t: t.branch(
                "kept",
                at=made["second"],
                options={"min-snapshots-to-keep": 2, "max-snapshot-age-ms": 3 * DAY, "max-ref-age-ms": 9 * DAY},
            ),
        ),
        ("INSERT INTO {t}.branch_kept VALUES (20, 'a')", lambda t: opened(t, branch="kept").write(rows(20))),
        ("CALL {c}.system.rollback_to_snapshot('{n}', {first})", lambda t: t.rollback(made["first"])),
        ("CALL {c}.system.fast_forward('{n}', 'main', 'kept')", lambda t: t.fast_forward("kept")),
        (
            "CALL {c}.system.set_current_snapshot(table => '{n}', ref => 'whole_week')",
            lambda t: t.rollback("tag:whole_week", any_snapshot=True),
        ),
        ("ALTER TABLE {t} REPLACE TAG whole_week AS OF VERSION {third}",
         lambda t: t.tag("whole_week", made["third"], replace=True)),
        ("ALTER TABLE {t} REPLACE BRANCH side AS OF VERSION {second}",
         lambda t: t.branch("side", at=made["second"], replace=True)),
        ("ALTER TABLE {t} CREATE BRANCH gone", lambda t: t.branch("gone")),
        ("ALTER TABLE {t} DROP BRANCH gone", lambda t: t.delete_branch("gone")),
        ("CALL {c}.system.fast_forward('{n}', 'side', 'main')",
         lambda t: opened(t, branch="side").fast_forward("main")),
        ("SET spark.wap.branch=audit", lambda t: None),
        ("INSERT INTO {t} VALUES (30, 'a')", lambda t: opened(t, wap_branch="audit").write(rows(30))),
        ("RESET spark.wap.branch", lambda t: None),
        ("SET spark.wap.id=last", lambda t: None),
        ("INSERT INTO {t} VALUES (31, 'a')", lambda t: t.write(rows(31), options={"wap.id": "last"})),
        ("RESET spark.wap.id", lambda t: None),
        ("CALL {c}.system.rollback_to_snapshot('{n}', {third})", lambda t: t.rollback(made["third"])),
        ("CALL {c}.system.cherrypick_snapshot('{n}', {whole})", lambda t: t.cherry_pick(made["whole"])),
        ("CALL {c}.system.set_current_snapshot('{n}', {second})",
         lambda t: t.rollback(made["second"], any_snapshot=True)),
    ]  # fmt: skip


def refusals(made: dict[str, str]) -> list[Act]:
    """Acts that both refuse, at the end of `acts`."""
    return [
        ("CALL {c}.system.publish_changes('{n}', 'none')", lambda t: t.publish("none")),
        ("CALL {c}.system.cherrypick_snapshot('{n}', 1)", lambda t: t.cherry_pick(1)),
        ("CALL {c}.system.cherrypick_snapshot('{n}', {first})", lambda t: t.cherry_pick(made["first"])),
        ("CALL {c}.system.cherrypick_snapshot('{n}', {whole})", lambda t: t.cherry_pick(made["whole"])),
        ("CALL {c}.system.cherrypick_snapshot('{n}', {late})", lambda t: t.cherry_pick(made["late"])),
        ("CALL {c}.system.rollback_to_snapshot('{n}', {third})", lambda t: t.rollback(made["third"])),
        ("CALL {c}.system.rollback_to_timestamp('{n}', TIMESTAMP '2001-01-01')", lambda t: t.rollback("2001-01-01")),
        ("CALL {c}.system.set_current_snapshot('{n}', 1)", lambda t: t.rollback(1, any_snapshot=True)),
        ("CALL {c}.system.fast_forward('{n}', 'side', 'kept')",
         lambda t: opened(t, branch="side").fast_forward("kept")),
        ("ALTER TABLE {t} CREATE TAG whole_week", lambda t: t.tag("whole_week")),
        ("ALTER TABLE {t} CREATE BRANCH side", lambda t: t.branch("side")),
        ("ALTER TABLE {t} REPLACE TAG side AS OF VERSION {first}",
         lambda t: t.tag("side", made["first"], replace=True)),
        ("ALTER TABLE {t} REPLACE BRANCH whole_week AS OF VERSION {first}",
         lambda t: t.branch("whole_week", made["first"], replace=True)),
        ("ALTER TABLE {t} DROP TAG side", lambda t: t.delete_tag("side")),
        ("ALTER TABLE {t} CREATE BRANCH b AS OF VERSION 1", lambda t: t.branch("b", at=1)),
        ("INSERT INTO {t}.branch_nowhere VALUES (1, 'a')", lambda t: opened(t, branch="nowhere").write(rows(1))),
        ("INSERT INTO {t}.branch_whole_week VALUES (1, 'a')", lambda t: opened(t, branch="whole_week").write(rows(1))),
    ]  # fmt: skip


def state(table: IcebergTable) -> dict[str, Any]:
    """What a table's metadata says of its history, each snapshot by its number."""
    metadata = opened(table).table_metadata
    number: dict[int | None, int | None] = {id: place for place, id in enumerate(metadata.snapshots)} | {None: None}
    snapshots = []
    for snapshot in metadata.snapshots.values():
        source = snapshot.summary.get("source-snapshot-id")
        links = {key: snapshot.summary[key] for key in LINKS if key in snapshot.summary}
        snapshots.append((number[snapshot.parent_id], number[int(source)] if source else None, links))
    refs = {
        ref.name: (number[ref.snapshot_id], ref.is_branch, ref.min_snapshots_to_keep, ref.max_snapshot_age_ms,
                   ref.max_ref_age_ms)
        for ref in metadata.refs.values()
    }  # fmt: skip
    return {"snapshots": snapshots, "refs": refs, "log": [number[id] for _, id in metadata.snapshot_log]}


@dataclass
class Told:
    """The two tables, the state of ours after the acts, and what Spark answered. `refused` are acts by their SQL."""

    ours: IcebergTable
    theirs: IcebergTable
    after: dict[str, Any]
    answers: dict[str, dict[str, Any]]
    refused: list[str]


@pytest.fixture(scope="module", params=ENGINES)
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("refs")
    version = {"4.0": 2, "4.1": 3}[request.param]
    ours, made = history(folder / "db/ours", version)
    theirs, other = history(folder / "db/theirs", version)
    refused = []
    for _, act in acts(made):
        act(ours)
    before = state(ours)
    for sql, act in refusals(made):
        try:
            act(ours)
        except LakebedError:
            refused.append(sql)
    ours.write(rows(40, p="d"), options={"wap.id": "theirs to publish"})
    opened(ours, branch="side").write(rows(41))
    places = {"c": "had", "t": "had.db.theirs", "n": "db.theirs", **other}
    requests = {
        "acts": [sql.format(**places) for sql, _ in acts(other)],
        **{sql: [sql.format(**places)] for sql, _ in refusals(other)},
        "ours": [
            "SELECT id FROM had.db.ours ORDER BY id",
            "SELECT id FROM had.db.ours VERSION AS OF 'kept' ORDER BY id",
            "SELECT id FROM had.db.ours VERSION AS OF 'whole_week' ORDER BY id",
            "SELECT name, type, max_reference_age_in_ms, min_snapshots_to_keep FROM had.db.ours.refs ORDER BY name",
            "CALL had.system.publish_changes('db.ours', 'theirs to publish')",
            "INSERT INTO had.db.ours.branch_audit VALUES (50, 'a')",
            "CALL had.system.expire_snapshots(table => 'db.ours', older_than => TIMESTAMP '2100-01-01')",
            "SELECT id FROM had.db.ours ORDER BY id",
            "SELECT id FROM had.db.ours VERSION AS OF 'audit' ORDER BY id",
        ],
    }
    answers = spark_answers(folder, requests, request.param)
    return Told(ours, theirs, before, answers, refused)


def test_the_same_acts_leave_the_same_state(told: Told) -> None:
    assert not told.answers["acts"]["error"], told.answers["acts"]["error"]
    theirs = state(told.theirs)
    assert [*told.after["refs"]] and told.after["refs"] == theirs["refs"]
    assert told.after["log"] == theirs["log"]
    of_audit = theirs["refs"]["audit"][0]
    for states in (told.after["snapshots"], theirs["snapshots"]):
        counts = states[of_audit][2]
        total = counts.pop("total-records"), counts.pop("total-data-files")
        # The engine counts from 0 in the commit that creates a branch, which has the rows of main all the same.
        assert total == (("1", "1") if states is theirs["snapshots"] else ("6", "6"))
    assert told.after["snapshots"] == theirs["snapshots"]


def test_the_same_acts_are_refused(told: Told) -> None:
    theirs = {sql: answer["error"] for sql, answer in told.answers.items() if "{" in sql}
    assert sorted(told.refused) == sorted(sql for sql, error in theirs.items() if error)
    assert len(told.refused) == len(theirs)


def test_spark_goes_on_with_ours_and_lakebed_after_it(told: Told) -> None:
    assert not told.answers["ours"]["error"], told.answers["ours"]["error"]
    main, kept, tag, refs, *_, after, audit = told.answers["ours"]["rows"]
    assert [row[0] for row in main] == [0, 1]
    assert [row[0] for row in kept] == [0, 1, 20]
    assert [row[0] for row in tag] == [0, 1, 5]
    assert [row[:2] for row in refs] == [
        ["audit", "BRANCH"], ["kept", "BRANCH"], ["main", "BRANCH"], ["side", "BRANCH"], ["whole_week", "TAG"],
    ]  # fmt: skip
    assert [row[0] for row in after] == ids(told.ours) == [0, 1, 40]
    assert [row[0] for row in audit] == ids(opened(told.ours, branch="audit"))
    told.theirs.publish("last")
    assert 31 in ids(told.theirs)


def test_other_readers_see_both(told: Told, tmp_path: Path) -> None:
    requests, wanted = [], {}
    for name, table in (("ours", told.ours), ("theirs", told.theirs)):
        newest = opened(table).operations.load().location
        wanted[name] = ids(table)
        assert sorted(StaticTable.from_metadata(newest).scan().to_arrow()["id"].to_pylist()) == wanted[name]
        requests.append(json.dumps({"name": name, "metadata": newest, "to": str(tmp_path / name)}))
    for answer in ask("LAKEBED_INTEROP_PYTHON", "duckdb_peer.py", [], requests):
        assert not answer["error"], answer["error"]
        with pa.OSFile(str(tmp_path / answer["name"])) as source:
            assert sorted(pa.ipc.open_stream(source).read_all()["id"].to_pylist()) == wanted[answer["name"]]
