"""The metadata table that lakebed keeps: what it lists after each change of the table, and when it is left."""

from __future__ import annotations

import shutil
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.formats.hudi.codec.plans import CleanMetadata, decode
from lakebed.formats.hudi.commit.transaction import Transaction
from lakebed.formats.hudi.metadata_table.opened import FOLDER
from lakebed.formats.hudi.timeline.properties import update_properties
from lakebed.kernel.files import FileInfo, Listing
from lakebed.kernel.files.local import LocalStore
from lakebed.kernel.files.store import PutOutcome
from tests.golden import unpack
from tests.tables.hudi.listing import listed, walked

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.int64())])
COMPACTS = {"hoodie.metadata.compact.max.delta.commits": 2}
PARTITIONS = "hoodie.table.metadata.partitions"


def rows(value: int, count: int = 4) -> pa.Table:
    return pa.Table.from_pylist([{"dt": "ab"[n % 2], "id": n, "v": value} for n in range(count)], SCHEMA)


def orders(folder: Path, version: int, kind: str = "MERGE_ON_READ", partition_by: tuple[str, ...] = ("dt",)) -> Table:
    options = {"hoodie.write.table.version": version, "hoodie.datasource.write.table.type": kind}
    return lakebed.create(folder / "t", "hudi", SCHEMA, ["id"], partition_by, options)


def named(table: Table) -> str:
    return lakebed.open(table.location).state().config.properties.get(PARTITIONS, "")  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    ("version", "kind", "partition_by"),
    [(6, "MERGE_ON_READ", ("dt",)), (8, "COPY_ON_WRITE", ()), (9, "MERGE_ON_READ", ("dt",))],
)
def test_it_lists_what_lies_in_the_folders(
    tmp_path: Path, version: int, kind: str, partition_by: tuple[str, ...]
) -> None:
    table = orders(tmp_path, version, kind, partition_by)
    keep = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.clean.commits.retained": 1}
    for value in range(7):
        mode = "overwrite" if value == 4 else "upsert"
        assert not table.write(rows(value), mode=mode, options={**COMPACTS, **keep}).notes
        if kind == "MERGE_ON_READ" and value % 3 == 2:
            table.rewrite(options={"hoodie.compact.inline.max.delta.commits": 1})
        assert listed(table) == walked(table)
    table.rewrite(options={"lakebed.rewrite.what": "clustering"})
    table.expire(options={"hoodie.clean.commits.retained": 1})
    table.write(rows(8).slice(0, 0), mode="delete", options={
        "hoodie.datasource.write.operation": "delete_partition", "hoodie.datasource.write.partitions.to.delete": "*"
    })  # fmt: skip
    assert listed(table) == walked(table)
    archived = "archived" if version < 8 else "timeline/history"
    assert table.store.list(f"{FOLDER}/.hoodie/{archived}").names


@pytest.mark.parametrize("version", [6, 9])
def test_a_write_that_is_taken_back_is_taken_back_there(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = orders(tmp_path, version)
    table.write(rows(0))
    complete = "lakebed.formats.hudi.commit.transaction.complete"

    def dies(*_: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(complete, dies)
        with pytest.raises(OSError, match="no space"):
            table.write(rows(1), mode="upsert")
    assert listed(table) == walked(table)  # the failed write rolled itself back
    with monkeypatch.context() as patched:
        patched.setattr(complete, dies)
        patched.setattr(Transaction, "abort", Transaction.leave)
        with pytest.raises(OSError, match="no space"):
            table.write(rows(2), mode="upsert")
    assert table.read(["v"]).read_all()["v"].unique().to_pylist() == [0]
    table.write(rows(3), mode="upsert", options=COMPACTS)
    assert listed(table) == walked(table)


def test_a_table_that_has_none_gets_one(tmp_path: Path) -> None:
    for name in ("cow_h015", "mor_v8"):
        folder = shutil.copytree(unpack("hudi", name), tmp_path / name)
        table = lakebed.open(folder)
        first = table.read().read_all().slice(0, 1)
        columns = [name for name in first.column_names if not name.startswith("_hoodie")]
        table.write(first.select(columns), mode="upsert")
        assert named(table) == "files" and listed(table) == walked(table)


@pytest.mark.parametrize("name", ["mor_mdt_v8", "mor_mdt_v9"])
def test_one_of_hudi_s_own_is_kept(tmp_path: Path, name: str) -> None:
    table = lakebed.open(shutil.copytree(unpack("hudi", name), tmp_path / name))
    first = table.read().read_all().slice(0, 1)
    columns = [name for name in first.column_names if not name.startswith("_hoodie")]
    for _ in range(2):
        table.write(first.select(columns), mode="upsert", options=COMPACTS)
        assert "files" in named(table).split(",") and listed(table) == walked(table)


def test_it_is_left_where_the_writer_says_so_and_built_again(tmp_path: Path) -> None:
    table = orders(tmp_path, 9)
    table.write(rows(0))
    (note,) = table.write(rows(1), mode="upsert", options={"hoodie.metadata.enable": "false"}).notes
    assert "files" in note and named(table) == "" and listed(table) is None
    table.write(rows(2), mode="upsert")
    assert named(table) == "files" and listed(table) == walked(table)
    table.rollback(next(i.time for i in table.history() if i.action == "deltacommit"))
    assert named(table) == "files" and listed(table) == walked(table)
    table.write(rows(3), mode="upsert")
    assert listed(table) == walked(table)


@pytest.mark.parametrize("version", [6, 9])
def test_its_clean_keeps_what_the_newest_commits_need(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.formats.hudi.metadata_table.compact._COMMITS", 3)
    table = orders(tmp_path, version)
    for number in range(7):
        table.write(rows(number), mode="upsert", options={"hoodie.metadata.compact.max.delta.commits": 1})
    bases = [name for name in table.store.list(f"{FOLDER}/files").names if name.endswith(".hfile")]
    assert len(bases) == 2  # three commits are a delta commit, a compaction and the delta commit before it
    (*_, clean) = sorted(tmp_path.rglob("*.clean"))
    decoded = decode(CleanMetadata, clean.read_bytes())
    assert decoded.earliest_commit_to_retain and decoded.total_files_deleted
    assert listed(table) == walked(table)


def test_a_damaged_one_is_left(tmp_path: Path) -> None:
    table = orders(tmp_path, 9)
    table.write(rows(0))
    table.store.delete(f"{FOLDER}/.hoodie/hoodie.properties")
    (note,) = table.write(rows(1), mode="upsert").notes
    assert "cannot be used" in note and named(table) == ""
    table.write(rows(2), mode="upsert")
    assert listed(table) == walked(table)


@pytest.mark.parametrize("version", [6, 9])
def test_its_properties_have_the_checksum_that_releases_expect(tmp_path: Path, version: int) -> None:
    """They hold a table for damaged whose properties have another one. Rule: `HoodieTableConfig.validateChecksum`."""
    schema = {"id": "int64", "dt": "string", "v": "int64"}
    described = {"hoodie.write.table.version": version, "hoodie.database.name": "sales", "hoodie.table.name": "orders"}
    table = lakebed.create(tmp_path / "t", "hudi", schema, ["id"], ["dt"], described)
    table.write(rows(0))
    for folder in (".hoodie", f"{FOLDER}/.hoodie"):
        text = (tmp_path / "t" / folder / "hoodie.properties").read_text()
        properties = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
        named = f"{properties.get('hoodie.database.name', '')}.{properties['hoodie.table.name']}"
        assert properties["hoodie.table.checksum"] == str(zlib.crc32(named.encode()))


def test_all_of_version_6_is_left_with_a_part_that_is_not_kept(tmp_path: Path) -> None:
    table = orders(tmp_path, 6)
    table.write(rows(0))
    update_properties(table.store, {PARTITIONS: "files,secondary_index_v"})
    (note,) = table.write(rows(1), mode="upsert").notes
    assert "secondary_index_v" in note and named(table) == ""
    table.rewrite(options={"lakebed.rewrite.step": "schedule"})
    store = Counting(table.location)
    lakebed.open(store).write(rows(2, 1), mode="upsert", options={"hoodie.clean.automatic": "false"})
    assert named(table) == "" and store.calls["walk"] == 0  # nothing can be built while a compaction is pending
    table.rewrite(options={"lakebed.rewrite.step": "run"})
    table.write(rows(3), mode="upsert")
    assert named(table) == "files" and listed(table) == walked(table)


def test_its_compaction_is_older_than_the_delta_commit_of_the_write_that_runs_it(tmp_path: Path) -> None:
    table = orders(tmp_path, 9)
    for number in range(4):
        table.write(rows(number), mode="upsert", options=COMPACTS)
    names = sorted(table.store.list(f"{FOLDER}/.hoodie/timeline").names)
    done = [[*name.partition(".")[0].split("_"), name.rpartition(".")[2]] for name in names if "_" in name]
    (at, *_) = [number for number, (*_, action) in enumerate(done) if action == "commit"]
    assert done[at - 1][1] < done[at][0] < done[at + 1][0] < done[at + 1][1]


def test_it_has_the_files_of_a_table_without_partitions_whose_writer_left_no_mark(tmp_path: Path) -> None:
    table = orders(tmp_path, 9, partition_by=())
    table.write(rows(0), options={"hoodie.metadata.enable": "false"})
    (tmp_path / "t" / ".hoodie_partition_metadata").unlink()  # hudi-rs writes none there
    lakebed.open(table.location).write(rows(1, 2), mode="upsert")
    assert named(table) == "files"
    assert sorted(lakebed.open(table.location).read(["v"]).read_all()["v"].to_pylist()) == [0, 0, 1, 1]


class Counting(LocalStore):
    """Counts its calls."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.calls: Counter[str] = Counter()

    def list(self, folder: str = "") -> Listing:
        self.calls["list"] += 1
        return super().list(folder)

    def walk(self, folder: str = "") -> Iterator[FileInfo]:
        self.calls["walk"] += 1
        return super().walk(folder)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        self.calls["read"] += 1
        return super().read(path, start, length)

    def write(self, path: str, data: bytes) -> None:
        self.calls["write"] += 1
        super().write(path, data)

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        self.calls["put"] += 1
        return super().put_if_absent(path, data)


def test_a_small_write_asks_for_little_more(tmp_path: Path) -> None:
    calls = {}
    for enabled in ("true", "false"):
        table = orders(tmp_path / enabled, 9)
        options = {"hoodie.metadata.enable": enabled, "hoodie.clean.automatic": "false"}
        table.write(rows(0), options=options)
        store = Counting(table.location)
        lakebed.open(store).write(rows(1, 1), mode="upsert", options=options)
        calls[enabled] = store.calls
    more = calls["true"] - calls["false"]
    assert more["walk"] == 0 and more["list"] <= 3 and more["read"] <= 1 and more["put"] <= 3 and more["write"] <= 1
