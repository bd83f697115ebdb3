"""What Iceberg's own engine did to snapshots and refs of golden tables, done again by lakebed on the state before: the
same refs, snapshot logs and summaries. The tables keep the metadata of every step."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.formats.iceberg.table import IcebergTable
from tests.golden import opening, unpack

DAY = 86_400_000
OF_ENGINE = ("engine-name", "engine-version", "iceberg-version", "app-id", "spark.app.id")


def first_of(document: dict[str, Any], **summary: str) -> str:
    """The id of the first snapshot whose summary says that."""
    wanted = {key.replace("_", "."): text for key, text in summary.items()}
    return next(str(s["snapshot-id"]) for s in document["snapshots"] if wanted.items() <= s["summary"].items())


Act = Callable[[IcebergTable, dict[str, Any]], Any]
STEPS: dict[str, tuple[str, int, Act]] = {
    "publish_changes": ("wap_rollback", 3, lambda table, _: table.publish("w1")),
    "cherrypick_snapshot": ("wap_rollback", 3, lambda table, before: table.cherry_pick(first_of(before, wap_id="w1"))),
    "rollback_to_snapshot": (
        "wap_rollback",
        5,
        lambda table, before: table.rollback(before["snapshots"][-1]["parent-snapshot-id"]),
    ),
    "create tag": ("branches_tags", 1, lambda table, _: table.tag("t1", time_retained="3650 d")),
    "create branch": (
        "branches_tags",
        2,
        lambda table, _: table.branch(
            "audit",
            options={"min-snapshots-to-keep": 2, "max-snapshot-age-ms": 3 * DAY, "max-ref-age-ms": 30 * DAY},
        ),
    ),
}


def metadata_of(folder: Path, step: int) -> Path:
    return next((folder / "metadata").glob(f"{step:05}-*.metadata.json"))


def comparable(document: dict[str, Any], new: int) -> dict[str, Any]:
    """What the metadata says of snapshots and refs; a snapshot that the step made counts by its place."""
    known = {s["snapshot-id"]: str(s["snapshot-id"]) for s in document["snapshots"][:new]}
    made = {s["snapshot-id"]: f"new {n}" for n, s in enumerate(document["snapshots"][new:])}
    names = {**known, **made, None: None, -1: None}
    snapshots = [
        {
            "id": names[s["snapshot-id"]],
            "parent": names[s.get("parent-snapshot-id")],
            "sequence": s["sequence-number"],
            "summary": {
                key: value for key, value in s["summary"].items() if key not in OF_ENGINE and "size" not in key
            },
        }
        for s in document["snapshots"]
    ]
    refs = {name: {**ref, "snapshot-id": names[ref["snapshot-id"]]} for name, ref in document["refs"].items()}
    return {
        "snapshots": snapshots,
        "refs": refs,
        "log": [names[entry["snapshot-id"]] for entry in document["snapshot-log"]],
        "current": names[document["current-snapshot-id"]],
        "sequence": document["last-sequence-number"],
    }


@pytest.mark.parametrize("name", STEPS)
def test_the_step_leaves_what_the_engine_left(name: str, tmp_path: Path) -> None:
    table_name, step, act = STEPS[name]
    folder = unpack("iceberg", table_name, into=tmp_path)
    before, after = (json.loads(metadata_of(folder, number).read_bytes()) for number in (step, step + 1))
    with sqlite3.connect(folder.parent / "catalog.db") as database:
        place = str(metadata_of(folder, step))
        database.execute("UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?", (place, table_name))
    database.close()
    uri = f"sqlite:///{folder.parent}/catalog.db"
    options = {"lakebed.catalog.type": "sql", "lakebed.catalog.uri": uri, **opening(folder)}
    table = lakebed.open(f"ice:db.{table_name}", options)
    assert isinstance(table, IcebergTable)
    act(table, before)
    done = json.loads(Path(table.operations.load().location.removeprefix("file://")).read_bytes())
    known = len(before["snapshots"])
    ours, theirs = comparable(done, known), comparable(after, known)
    for snapshot in (*ours["snapshots"], *theirs["snapshots"]):  # a total that is 0 may be left out
        snapshot["summary"] = {key: value for key, value in snapshot["summary"].items() if value != "0"}
    assert ours == theirs
