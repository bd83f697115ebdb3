"""Scan options: the snapshot that they name, and the words for those that contradict each other."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed import Table
from lakebed.errors import NotInHistoryError, OptionError, UnsupportedError
from lakebed.spark.source import load
from tests.pyspark_release import needs
from tests.tables.paimon.small import SCHEMA, contents, rows

TIMES = (1_700_000_000_000, 1_700_000_060_000, 1_700_000_120_000, 1_700_000_180_000)
WATERMARKS = (None, 10, -(2**63), 30)


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four snapshots with known times and watermarks, the third one's kind COMPACT; tags `2` (of 3) and `first`."""
    folder = tmp_path_factory.mktemp("travel") / "t"
    table = lakebed.create(folder, "paimon", SCHEMA)
    for place in range(4):
        table.write(rows(("a", place + 1, "v", 1)))
        path = folder / "snapshot" / f"snapshot-{place + 1}"
        value = json.loads(path.read_text())
        value.update(timeMillis=TIMES[place], commitKind="COMPACT" if place == 2 else "APPEND")
        if WATERMARKS[place] is not None:
            value["watermark"] = WATERMARKS[place]
        path.write_text(json.dumps(value))
    for name, source in (("2", 3), ("first", 1)):
        (folder / "tag").mkdir(exist_ok=True)
        (folder / "tag" / f"tag-{name}").write_text((folder / "snapshot" / f"snapshot-{source}").read_text())
    return folder


def seen(table: Table, **how: Any) -> int:
    return len(contents(table, **how))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, 4),
        ({"scan.mode": "default"}, 4),
        ({"scan.mode": "latest-full"}, 4),
        ({"scan.mode": "FULL"}, 4),
        ({"log.scan": "latest"}, 4),
        ({"scan.mode": "compacted-full"}, 3),
        ({"scan.mode": "compacted-full", "full-compaction.delta-commits": "3"}, 3),
        ({"scan.mode": "from-file-creation-time", "scan.file-creation-time-millis": "0"}, 4),
        ({"scan.file-creation-time-millis": str(2**50)}, 0),
        ({"scan.mode": "from-creation-timestamp", "scan.creation-time-millis": str(TIMES[1])}, 2),
        ({"scan.creation-time-millis": str(TIMES[0])}, 4),
        ({"scan.creation-time-millis": str(2**50)}, 0),
        ({"scan.snapshot-id": "2"}, 2),
        ({"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}, 2),
        ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"}, 2),
        ({"scan.mode": "from-snapshot", "scan.tag-name": "first"}, 1),
        ({"scan.tag-name": "2"}, 3),
        ({"scan.version": "1"}, 1),
        ({"scan.version": "2"}, 3),  # a tag comes before a snapshot of that number
        ({"scan.version": "first"}, 1),
        ({"scan.version": "watermark-11"}, 4),
        ({"scan.watermark": "-5"}, 2),
        ({"scan.watermark": "10"}, 2),
        ({"scan.mode": "from-snapshot", "scan.watermark": "11"}, 4),
        ({"scan.timestamp-millis": str(TIMES[1])}, 2),
        ({"log.scan.timestamp-millis": str(TIMES[2] - 1)}, 2),
        ({"scan.timestamp": "2023-11-14 22:14:20"}, 2),
        ({"scan.mode": "from-timestamp", "scan.timestamp": "2023-11-14T23:15:20.5+01:00"}, 3),
    ],
    ids=str,
)
def test_the_snapshot_that_options_name(location: Path, options: dict[str, str], wanted: int) -> None:
    assert seen(lakebed.open(location, options=options)) == wanted


def test_the_newest_instant_is_what_a_read_gives(location: Path) -> None:
    newest = {"": "4", "compacted-full": "3"}
    for mode, snapshot in newest.items():
        found = lakebed.open(location, options={"scan.mode": mode} if mode else {}).newest()
        assert found is not None
        assert found.time == snapshot
    named = lakebed.open(location, options={"scan.tag-name": "first"})
    assert named.newest() is None  # nothing to pin: the option stays


def test_an_argument_comes_before_options(location: Path) -> None:
    assert seen(lakebed.open(location, options={"scan.snapshot-id": "2"}), as_of=3) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"scan.snapshot-id": "2", "scan.tag-name": "2"},
        {"scan.mode": "latest", "scan.snapshot-id": "2"},
        {"scan.mode": "compacted-full", "scan.snapshot-id": "2"},
        {"scan.mode": "from-snapshot"},
        {"scan.mode": "from-snapshot", "scan.timestamp": "2023-11-14 22:14:20"},
        {"scan.mode": "from-snapshot-full", "scan.tag-name": "2"},
        {"scan.mode": "from-timestamp", "scan.snapshot-id": "2"},
        {"scan.mode": "newest"},
        {"scan.watermark": "x"},
    ],
    ids=str,
)
def test_options_that_contradict_each_other(location: Path, options: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        lakebed.open(location, options=options).read()


@pytest.mark.parametrize(
    "options",
    [
        {"scan.version": "none"}, {"scan.version": "9"}, {"scan.version": "watermark-31"}, {"scan.watermark": "31"},
        {"scan.timestamp": "2023-01-01"}, {"scan.timestamp": "soon"},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_in_the_history(location: Path, options: dict[str, str]) -> None:
    with pytest.raises(NotInHistoryError):
        lakebed.open(location, options=options).read()


def test_a_mode_that_is_not_served(location: Path) -> None:
    with pytest.raises(UnsupportedError, match="latest-delta"):
        lakebed.open(location, options={"scan.mode": "latest-delta"}).read()


def test_level_0_of_a_table_with_deletion_vectors(tmp_path: Path) -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"}
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, ["id"], options=options)
    assert any("level 0" in note for note in table.write(rows(("a", 1, "v", 1), ("a", 2, "v", 1))).notes)
    merging = lakebed.open(tmp_path / "t", options={"deletion-vectors.merge-on-read": "true"})
    assert merging.write(rows(("a", 1, "w", 2)), "upsert").notes == ()
    assert contents(table) == []
    assert contents(merging) == [("a", 1, "w", 2), ("a", 2, "v", 1)]


@pytest.mark.parametrize("name", ["lakebed", "paimon"])
@pytest.mark.parametrize("is_stored", [False, True])
def test_a_dataframe_is_pinned_to_what_options_mean(tmp_path: Path, location: Path, name: str, is_stored: bool) -> None:
    """The newest snapshot, which each DataFrame is pinned to, lies over no scan option, given or in the schema."""
    needs("4.1", "filters that Spark pushes to sources")
    from pyspark.sql.datasource import GreaterThan

    folder = tmp_path / "t"
    shutil.copytree(location, folder)
    for options, wanted in (({}, 4), ({"scan.version": "1"}, 1), ({"scan.mode": "compacted-full"}, 3)):
        given = {"path": str(folder), **({} if is_stored else options)}
        if is_stored:
            path = folder / "schema" / "schema-0"
            path.write_text(json.dumps({**json.loads(path.read_text()), "options": options}))
        loaded = load(given, name, 1).pinned()
        again = loaded.push([GreaterThan(("id",), 0)])
        for plan in (loaded.plan, again):
            assert plan is not None
            assert sum(batch.num_rows for split in plan.splits for batch in plan.read(split)) == wanted
