"""Orphan files: what nothing names goes once it is old, and nothing else."""

import json
import os
import pickle
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.errors import DataCleanedError, OptionError, StorageError
from tests.golden import unpack
from tests.tables.paimon.small import Make, contents, rows

ORPHANS = {"lakebed.expire.what": "orphan-files"}
DAY = 86_400


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def age(root: Path, days: float) -> None:
    then = time.time() - days * DAY
    for path in root.rglob("*"):
        os.utime(path, (then, then))


def states(table: lakebed.Table) -> list[list[Any]]:
    times: list[Any] = [None, *(int(instant.time) for instant in table.history())]
    return [sorted(map(repr, table.read(as_of=moment).read_all().to_pylist())) for moment in times]


@pytest.mark.parametrize(
    "name",
    ["append_dv", "bloom", "cl_input", "cl_lookup", "expire", "pk_dv", "pk_dynamic", "pk_null_part", "pk_postpone",
     "tags_branches", "types_orc"],
)  # fmt: skip
def test_what_the_reference_wrote_stays_and_strays_go(tmp_path: Path, name: str) -> None:
    root = unpack("paimon", name, into=tmp_path)
    bucket = next(path.parent for path in root.rglob("data-*"))
    strays = [
        bucket / "data-0-0.parquet",
        bucket / "data-0-0.parquet.index",
        bucket / ".data-1-0.orc.0.tmp",
        root / "manifest" / "manifest-0-0",
        root / "index" / "index-0-0",
        root / "snapshot" / ".snapshot-99.0.tmp",
    ]
    there = files(root)
    for stray in strays:
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(b"left")
    age(root, 2)
    table = lakebed.open(root)
    before = states(table)
    named = sorted(str(stray.relative_to(root)) for stray in strays)
    planned = table.expire(dry_run=True, options=ORPHANS)
    assert (sorted(planned.deleted_files), planned.expired, planned.dry_run) == (named, (), True)
    assert files(root) == there | {*named}
    assert table.expire(options=ORPHANS).deleted_files == planned.deleted_files
    assert files(root) == there
    assert states(table) == before


def test_files_of_a_writer_at_work_are_too_young(make: Make) -> None:
    table = make(write__only="true")
    table.write(rows(("a", 1, "v", 1)))
    root = Path(table.location)
    age(root, 3)
    writer = table.writer("job")
    writer.write(rows(("b", 2, "w", 1)))
    messages = writer.prepare_commit()
    done = table.expire(options=ORPHANS)
    assert done.deleted_files == () and len(done.kept) == 1 and "younger than 24 hours" in done.kept[0].reason
    writer.commit(1, messages)
    assert len(contents(table)) == 2


def test_what_only_a_branch_had_goes_after_it(make: Make) -> None:
    table = make(write__only="true")
    table.write(rows(("a", 1, "v", 1)))
    table.tag("t")
    table.branch("b", "tag:t")
    root = Path(table.location)
    shared = files(root)
    lakebed.open(root, {"branch": "b"}).write(rows(("a", 2, "w", 1)))
    age(root, 2)
    assert table.expire(options=ORPHANS).deleted_files == ()
    table.delete_branch("b")
    gone = table.expire(options=ORPHANS).deleted_files
    assert [Path(name).name.partition("-")[0] for name in gone] == ["data", "manifest", "manifest", "manifest"]
    assert files(root) == {name for name in shared if not name.startswith("branch/")}
    assert contents(table) == [("a", 1, "v", 1)]


def test_an_age_that_spares_no_writer_and_a_table_without_snapshots(make: Make) -> None:
    table = make()
    root = Path(table.location)
    (root / "bucket-0").mkdir()
    (root / "bucket-0" / "data-0-0.parquet").write_bytes(b"left")
    age(root, 2)
    with pytest.raises(OptionError, match="less than an hour"):
        table.expire(options={**ORPHANS, "lakebed.expire.orphans.after": "10 min"})
    assert "no snapshot" in table.expire(options=ORPHANS).kept[0].reason
    with pytest.raises(OptionError, match=r"lakebed\.expire\.what"):
        table.expire(options={"lakebed.expire.wat": "orphan-files"})


def test_a_tag_whose_files_are_gone_is_named_with_what_to_do(make: Make) -> None:
    """As a process leaves it that dies between the put of a tag and the look for its snapshot, which had expired."""
    table = make()
    for number in range(3):
        table.write(rows(("a", number, "v", 1)))
    table.tag("kept")
    table.tag("late", table.history()[0].time)
    tag = Path(table.location, "tag", "tag-late")
    made = tag.read_bytes()
    table.delete_tag("late")
    few = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"}
    table.expire(options=few)
    tag.write_bytes(made)
    with pytest.raises(DataCleanedError, match=r"tag 'late' has lost files.*table\.delete_tag\('late'\)"):
        table.expire(options=ORPHANS)
    table.delete_tag("late")
    assert table.expire(options=ORPHANS).deleted_files == ()


def test_a_snapshot_that_came_after_its_number_had_expired_goes(make: Make) -> None:
    """As a writer leaves it that dies between a put that took minutes and the look where its snapshot stands."""
    table = make()
    root = Path(table.location)
    for number in range(4):
        table.write(rows(("a", number, "v", 1)))
    late = (root / "snapshot" / "snapshot-1").read_bytes()
    few = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"}
    table.rewrite(options={"compact_strategy": "full"})
    table.expire(options=few)
    whole = files(root)
    (root / "snapshot" / "snapshot-1").write_bytes(late)
    age(root, 2)
    table = lakebed.open(root)
    for dry_run in (True, False):
        result = table.expire(options=ORPHANS, dry_run=dry_run)
        assert result.deleted_files == ("snapshot/snapshot-1",)
    assert files(root) == whole
    assert [row[1] for row in contents(table)] == [0, 1, 2, 3]


@pytest.mark.parametrize("young", [True, False])
def test_a_late_snapshot_right_before_the_oldest_one_hides_no_file(young: bool, make: Make) -> None:
    """It has the number before that of the oldest snapshot, which does not follow it: its base has more files."""
    table = make()
    root = Path(table.location)
    for number in range(5):
        table.write(rows(("a", number, "v", 1)))
    first = json.loads((root / "snapshot" / "snapshot-1").read_text())
    manifests = {path: path.read_bytes() for path in (root / "manifest").iterdir()}
    few = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "2", "snapshot.time-retained": "1 ms"}
    table.expire(options=few)
    rest = {name for name in files(root) if not name.startswith("manifest/")}
    (root / "snapshot" / "snapshot-3").write_text(json.dumps({**first, "id": 3}))
    for path, content in manifests.items():
        path.write_bytes(content)
    age(root, 2)
    if young:
        (root / "snapshot" / "snapshot-3").touch()
    deleted = lakebed.open(root).expire(options=ORPHANS).deleted_files
    assert ("snapshot/snapshot-3" in deleted) is not young
    assert {*deleted} & rest == set()
    assert [row[1] for row in contents(lakebed.open(root))] == [0, 1, 2, 3, 4]


def test_a_snapshot_that_is_back_without_its_lists_stops_no_clean_up(make: Make) -> None:
    """As a put that is made again leaves it, when its snapshot has expired meanwhile, beside a late one before it."""
    table = make()
    root = Path(table.location)
    for number in range(4):
        table.write(rows(("a", number, "v", 1)))
    expired = json.loads((root / "snapshot" / "snapshot-2").read_text())
    for kind in ("baseManifestList", "deltaManifestList"):
        (root / "manifest" / expired[kind]).unlink()
    age(root, 2)
    assert lakebed.open(root).expire(options=ORPHANS).deleted_files == ()
    assert [row[1] for row in contents(lakebed.open(root))] == [0, 1, 2, 3]


class Cluster:
    """An engine of other processes whose last task dies: what the tasks before it wrote, nobody here knows."""

    parallelism = 2

    def map(self, fn: Any, tasks: Iterable[Any]) -> Iterator[Any]:
        *whole, _ = [pickle.dumps((fn, task)) for task in tasks]
        for data in whole:
            work, task = pickle.loads(data)
            yield pickle.loads(pickle.dumps(work(task)))
        raise StorageError("the executor was lost")


@pytest.mark.parametrize(
    ("key", "options"),
    [
        ((), {"bucket": "-1", "compaction.min.file-num": "2"}),
        (("dt", "id"), {"bucket": "2", "changelog-producer": "lookup", "deletion-vectors.enabled": "true"}),
        (("dt", "id"), {"bucket": "-2", "postpone.default-bucket-num": "2"}),
    ],
    ids=["append", "lookup", "postponed"],
)
def test_what_the_tasks_of_a_failed_job_left_goes_as_orphans(
    make: Make, key: tuple[str, ...], options: dict[str, str]
) -> None:
    table = make(primary_key=key, **{name.replace("-", "__").replace(".", "_"): text for name, text in options.items()})
    table = lakebed.open(table.location, {"write-only": "true"})
    for number in range(3):
        table.write(rows(*((dt, one, "v", number) for dt in "abc" for one in range(4))))
    root, before = Path(table.location), states(table)
    there = files(root)
    with pytest.raises(StorageError, match="executor was lost"):
        table.rewrite(engine=Cluster(), options={"write-only": "false"})
    left = files(root) - there
    assert len(left) >= 2 and {*there} <= files(root) and states(table) == before
    assert table.expire(options=ORPHANS).deleted_files == ()
    age(root, 2)
    assert {*table.expire(options=ORPHANS).deleted_files} == {name for name in left if not name.startswith(".")}
    assert states(table) == before
    table.rewrite(options={"write-only": "false"})
    age(root, 2)
    table.expire(options=ORPHANS)
    assert states(table)[1:-1] == before[1:]
