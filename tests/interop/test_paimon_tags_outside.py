"""Tags that lakebed's commits make are those that Paimon's Java engine makes of the same snapshots. Each engine ends
and removes the other's, and goes on after the other's rollback."""

import datetime
import json
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.kernel import clock
from tests.interop.conftest import PaimonJvm

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string())])
START = int(datetime.datetime(2024, 2, 27, 22, 30, tzinfo=datetime.UTC).timestamp())
HOUR = 3600
CASES: dict[str, tuple[dict[str, str], int]] = {
    "daily": ({"tag.creation-delay": "3 h", "sink.process-time-zone": "America/St_Johns"}, 9 * HOUR),
    "days without dashes": ({"tag.period-formatter": "without_dashes", "tag.num-retained-max": "3"}, 20 * HOUR),
    "hourly": ({"tag.creation-period": "hourly", "tag.num-retained-max": "4"}, HOUR),
    "made up for": ({"tag.creation-period": "hourly", "tag.automatic-completion": "true"}, 2 * HOUR),
    "hours in a row": (
        {
            "tag.creation-period": "hourly",
            "tag.period-formatter": "without_dashes_and_spaces",
            "sink.process-time-zone": "GMT+05:30",
        },
        HOUR,
    ),
    "two hours": ({"tag.creation-period": "two-hours", "tag.creation-delay": "10 min"}, HOUR),
    "seven minutes": ({"tag.creation-period-duration": "7 min"}, HOUR // 6),
}


def tags(jvm: PaimonJvm, folder: Path) -> list[dict[str, Any]]:
    """The tags as the Java engine sees them, by name: it lists them as the folder has them."""
    return sorted(jvm.tell("tags", folder), key=lambda tag: str(tag["tag"]))


@pytest.mark.parametrize("mode", ["process-time", "watermark"])
@pytest.mark.parametrize("case", CASES)
def test_the_same_snapshots_get_the_same_tags(case: str, mode: str, tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    given, step = CASES[case]
    zones = {"sink.process-time-zone": "UTC", **given}
    options = {**zones, "tag.automatic-creation": mode, "sink.watermark-time-zone": zones["sink.process-time-zone"]}
    folder, theirs, moved = tmp_path / "db.db" / "ours", tmp_path / "db.db" / "theirs", random.Random(case + mode)
    table = lakebed.create(folder, "paimon", SCHEMA, options={"write-only": "true"})
    table = lakebed.open(folder, {**options, "write-only": "false", "snapshot.num-retained.min": "100"})
    writer, now = table.writer(commit_user="u"), START
    for number in range(18):
        now += moved.choice((0, step // 7, step // 2, step, step))
        with clock.set_clock(lambda now=now: now if mode == "process-time" else START):
            if mode == "watermark" and number % 5:
                writer.with_watermark(now * 1000)
            writer.write(pa.table({"id": [number], "v": ["x"]}, SCHEMA))
            writer.commit(number, writer.prepare_commit())
    shutil.copytree(folder, theirs)
    shutil.rmtree(theirs / "tag", ignore_errors=True)
    paimon_jvm.tell("automatic", theirs, *(f"{key}={value}" for key, value in options.items()))
    ours = tags(paimon_jvm, folder)
    assert ours == tags(paimon_jvm, theirs)
    assert len(ours) > 2
    paimon_jvm.tell("automatic", folder, *(f"{key}={value}" for key, value in options.items()))
    assert tags(paimon_jvm, folder) == ours


def test_each_engine_moves_and_renames_the_others_tags(
    tmp_path: Path, paimon_jvm: PaimonJvm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "moment", lambda: datetime.datetime.now(datetime.UTC).replace(tzinfo=None))
    folder = tmp_path / "db.db" / "ours"
    options = {"bucket": "1", "tag.default-time-retained": "1 d"}
    table = lakebed.create(folder, "paimon", SCHEMA, ["id"], options=options)
    for number in range(3):
        table.write(pa.table({"id": [number], "v": ["x"]}, SCHEMA))
    table.tag("a", 1)
    paimon_jvm.tell("tag", folder, "b", 1)
    theirs = shutil.copytree(folder, tmp_path / "db.db" / "theirs")
    for name, to, lives in (("a", 2, None), ("b", 3, "7 d"), ("b", 2, "1 h")):
        table.tag(name, to, lives, replace=True)
        millis = () if lives is None else ({"7 d": 7 * 24 * 3_600_000, "1 h": 3_600_000}[lives],)
        paimon_jvm.tell("retag", theirs, name, to, *millis)
        assert tags(paimon_jvm, folder) == tags(paimon_jvm, theirs)
    one, other = (json.loads((place / "tag" / "tag-a").read_bytes()) for place in (folder, theirs))
    assert one == other
    table.rename_tag("a", "c")
    paimon_jvm.tell("nametag", theirs, "a", "c")
    paimon_jvm.tell("nametag", folder, "b", "d")
    lakebed.open(theirs).rename_tag("b", "d")
    assert tags(paimon_jvm, folder) == tags(paimon_jvm, theirs)
    assert {ref.name: ref.instant for ref in table.refs() if ref.kind == "tag"} == {"c": "2", "d": "2"}
    for place in (folder, theirs):
        assert lakebed.open(place).read(as_of="tag:d").read_all()["id"].to_pylist() == [0, 1]


def test_each_engine_ends_the_others_tags(
    tmp_path: Path, paimon_jvm: PaimonJvm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "moment", lambda: datetime.datetime.now(datetime.UTC).replace(tzinfo=None))
    folder = tmp_path / "db.db" / "t"
    table = lakebed.create(folder, "paimon", SCHEMA, ["id"], options={"bucket": "1"})
    table.write(pa.table({"id": [1], "v": ["x"]}, SCHEMA))
    table.tag("ours", time_retained="1 ms")
    table.tag("ours for an hour", time_retained="3600500 ms")
    paimon_jvm.tell("lives", folder, "theirs", 1)
    paimon_jvm.tell("lives", folder, "theirs for an hour", 3_600_000)
    assert {(tag["tag"], tag["lives"]) for tag in paimon_jvm.tell("tags", folder)} == {
        ("ours", 1), ("ours for an hour", 3_600_500), ("theirs", 1), ("theirs for an hour", 3_600_000)
    }  # fmt: skip
    utc = shutil.copytree(folder, tmp_path / "db.db" / "copy")
    paimon_jvm.tell("automatic", utc)
    left = {"ours for an hour", "theirs for an hour"}
    assert {tag["tag"] for tag in paimon_jvm.tell("tags", utc)} == left
    result = table.expire(options={"lakebed.expire.what": "tags"})
    assert {*result.expired} == {"ours", "theirs"}
    assert {tag["tag"] for tag in paimon_jvm.tell("tags", folder)} == left


@pytest.mark.parametrize("by_us", [True, False])
def test_a_removed_tag_takes_its_files_along(by_us: bool, tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    folder = tmp_path / "db.db" / "t"
    table = lakebed.create(folder, "paimon", SCHEMA, ["id"], options={"bucket": "1", "write-only": "true"})
    for number in range(1, 7):
        mode = "overwrite" if number % 2 else "append"
        table.write(pa.table({"id": [number], "v": ["x"]}, SCHEMA), mode=mode)
        if number < 6:
            table.tag(f"t{number}")
    expire = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    assert len(table.expire(options=expire).expired) == 5 if by_us else paimon_jvm.tell("expire", folder, 1) == []
    for name in ("t2", "t3", "t5", "t1"):
        if by_us:
            paimon_jvm.tell("untag", folder, name)
        else:
            lakebed.open(folder).delete_tag(name)
    orphans = lakebed.open(folder).expire(dry_run=True, options={"lakebed.expire.what": "orphan-files"})
    assert orphans.deleted_files == ()
    assert [kept.what for kept in orphans.kept if not by_us or "manifest-list" not in kept.what] == []
    ids = {moment: [row["row"]["id"] for row in paimon_jvm.tell("at", folder, moment)] for moment in ("t4", 6)}
    assert {moment: sorted(found) for moment, found in ids.items()} == {"t4": [3, 4], 6: [5, 6]}


def test_a_rollback_beyond_changelogs_that_outlive_their_snapshots(tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    folder = tmp_path / "db.db" / "t"
    kept = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "changelog.num-retained.max": "9"}
    options = {"bucket": "1", "changelog-producer": "input", **kept, "changelog.num-retained.min": "1"}
    lakebed.create(folder, "paimon", SCHEMA, ["id"], options=options)
    for number in range(1, 7):
        paimon_jvm.write(folder, [["+I", number, "x"]], number)
        if number == 3:
            paimon_jvm.tell("tag", folder, "three")
    assert paimon_jvm.tell("changelogs", folder) == [{"earliest": 1, "latest": 5}]
    first = shutil.copytree(folder, tmp_path / "db.db" / "first", copy_function=copy_if_there)
    (first / "changelog" / "changelog-1").unlink()
    for copy, left in ((folder, {"earliest": 1, "latest": 3}), (first, {"earliest": 2, "latest": 3})):
        table = lakebed.open(copy)
        assert table.rollback("tag:three").kept == ("3",)
        assert paimon_jvm.tell("changelogs", copy) == [left]
        paimon_jvm.write(copy, [["+I", 9, "y"]], 9)
        paimon_jvm.write(copy, [["+I", 8, "y"]], 10)
        assert paimon_jvm.tell("changelogs", copy) == [{**left, "latest": 4}]
        assert sorted(table.read().read_all()["id"].to_pylist()) == [1, 2, 3, 8, 9]


def copy_if_there(source: str, target: str) -> None:
    """The engine goes on deleting files of expired snapshots after its commit."""
    with suppress(FileNotFoundError):
        shutil.copy2(source, target)
