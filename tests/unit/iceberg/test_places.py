"""The places that an Iceberg table may touch: its own folder, and what the caller or a catalog named. The test records
every path that a local store is asked for."""

import json
import os
import pickle
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import DataCleanedError, LakebedError, ReadWarning, UnsupportedError, UsageError
from lakebed.formats.iceberg.catalog.hadoop import HadoopTable
from lakebed.formats.iceberg.data_files import DataFile
from lakebed.formats.iceberg.files import Files
from lakebed.kernel.files import open_store
from lakebed.kernel.files.local import LocalStore
from tests.tables.iceberg import commits

ROWS = pa.schema([("id", pa.int64())])
FAR = {"older-than": "2100-01-01T00:00:00"}
ORPHANS = {"expire-snapshots": "false", "remove-orphan-files": "true"}


@pytest.fixture
def touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The absolute paths that local stores were asked for. Not those in folders of other tests, whose writers may still
    send heartbeats."""
    found: set[str] = set()
    real = LocalStore.local_path

    def recorded(store: LocalStore, path: str) -> str:
        place = Path(os.path.normpath(os.path.join(store.location, path)))
        if tmp_path.parent not in place.parents or tmp_path in place.parents:
            found.add(str(place))
        return real(store, path)

    monkeypatch.setattr(LocalStore, "local_path", recorded)
    return found


def create(folder: Path, commits: int = 3, **options: str) -> Any:
    table = lakebed.create(folder, "iceberg", ROWS, options=options)
    for number in range(commits):
        table.write(pa.table({"id": [number]}))
    return table


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """The newest metadata, changed by somebody who can write it."""
    newest = max((folder / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
    document = json.loads(newest.read_text())
    change(document)
    newest.write_text(json.dumps(document))


def properties(**found: str) -> Callable[[dict[str, Any]], object]:
    return lambda document: document["properties"].update({k.replace("_", "."): v for k, v in found.items()})


def ids(table: Any) -> list[int]:
    return sorted(table.read().read_all()["id"].to_pylist())


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder beside the table, with old files."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in ("thesis.tex", "v1.metadata.json"):
        (folder / name).write_text("precious")
        os.utime(folder / name, (0, 0))
    return folder


def only_below(touched: set[str], folder: Path) -> None:
    temporary = [path for path in touched if "/lakebed-staging-" in path]
    assert {path for path in touched if not path.startswith(str(folder))} <= set(temporary)


# ---- what metadata names ---------------------------------------------------------------------------------------------


def log_of(victim: Path) -> Callable[[dict[str, Any]], object]:
    def change(document: dict[str, Any]) -> None:
        document["properties"] |= {
            "write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1",
        }  # fmt: skip
        names = [f"{victim}/thesis.tex", f"file://{victim}/v1.metadata.json", f"{document['location']}/data/../../x"]
        document["metadata-log"] = [{"timestamp-ms": 1, "metadata-file": name} for name in names]

    return change


def statistics_of(victim: Path, key: str) -> Callable[[dict[str, Any]], object]:
    def change(document: dict[str, Any]) -> None:
        document[key] = [
            {"snapshot-id": document["snapshots"][0]["snapshot-id"], "statistics-path": f"{victim}/thesis.tex",
             "file-size-in-bytes": 8, "file-footer-size-in-bytes": 4, "blob-metadata": []}
        ]  # fmt: skip

    return change


def test_the_metadata_log_removes_metadata_files_of_the_table_only(
    tmp_path: Path, victim: Path, touched: set[str]
) -> None:
    create(tmp_path / "t")
    edit(tmp_path / "t", log_of(victim))
    before = content(victim)
    lakebed.open(tmp_path / "t").write(pa.table({"id": [9]}))
    assert ids(lakebed.open(tmp_path / "t")) == [0, 1, 2, 9] and content(victim) == before
    only_below(touched, tmp_path / "t")


@pytest.mark.parametrize("key", ["statistics", "partition-statistics"])
def test_statistics_outside_stay_and_are_named(key: str, tmp_path: Path, victim: Path, touched: set[str]) -> None:
    create(tmp_path / "t")
    edit(tmp_path / "t", statistics_of(victim, key))
    before = content(victim)
    for dry_run in (True, False):
        done = lakebed.open(tmp_path / "t").expire(dry_run, options=FAR)
        (kept,) = [one for one in done.kept if "outside" in one.reason]
        assert kept.what == f"{victim}/thesis.tex" and kept.what not in done.deleted_files
    assert content(victim) == before
    only_below(touched, tmp_path / "t")
    create(tmp_path / "u")
    edit(tmp_path / "u", statistics_of(victim, key))
    lakebed.open(tmp_path / "u", {"lakebed.storage.places": str(victim)}).expire(options=FAR)
    assert not (victim / "thesis.tex").exists(), "the caller named the place"


@pytest.mark.parametrize("key", ["write_data_path", "write_metadata_path", "write_folder-storage_path"])
def test_new_files_go_only_where_the_caller_allows(key: str, tmp_path: Path, victim: Path, touched: set[str]) -> None:
    create(tmp_path / "t")
    edit(tmp_path / "t", properties(**{key: str(victim)}))
    before = content(victim), content(tmp_path / "t")
    table = lakebed.open(tmp_path / "t")
    for change in (
        lambda: table.write(pa.table({"id": [9]})), lambda: table.rewrite(dry_run=True), lambda: table.rewrite(),
        lambda: table.write(pa.table({"id": [9]}), "overwrite"),
    ):  # fmt: skip
        with pytest.raises(UnsupportedError, match=r"outside its own folder.*lakebed\.storage\.places"):
            change()
    assert (content(victim), content(tmp_path / "t")) == before
    only_below(touched, tmp_path / "t")
    lakebed.open(tmp_path / "t", {"lakebed.storage.places": f"file://{victim}"}).write(pa.table({"id": [9]}))
    assert len(content(victim)) > len(before[0])


def test_who_makes_a_table_names_its_places(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "iceberg", ROWS, options={"write.data.path": str(tmp_path / "d")})
    table.write(pa.table({"id": [1]}))
    assert ids(table) == [1] and list((tmp_path / "d").iterdir())
    with pytest.raises(UnsupportedError, match="outside its own folder"):
        ids(lakebed.open(tmp_path / "t"))
    assert ids(lakebed.open(tmp_path / "t", {"lakebed.storage.places": str(tmp_path / "d")})) == [1]


@pytest.mark.parametrize("spell", ["{}", "file:{}", "file://{}", "{table}/../home/f.parquet", "http://127.0.0.1:1/x"])
def test_data_files_outside_are_not_read(spell: str, tmp_path: Path, victim: Path, touched: set[str]) -> None:
    """Such files were named by `add_files`, or belong to somebody else."""
    pq.write_table(pa.table({"id": [7]}), victim / "f.parquet")
    mapping = json.dumps([{"field-id": 1, "names": ["id"]}])
    table = create(tmp_path / "t", 0, **{"schema.name-mapping.default": mapping})
    path = spell.format(victim / "f.parquet", table=tmp_path / "t")
    size = (victim / "f.parquet").stat().st_size
    commits.append(table.operations, [DataFile(path, "PARQUET", 0, (), 1, size)])
    for read in (table.read, lambda: table.changes(), lambda: table.rewrite(options={"rewrite-all": True})):
        with pytest.raises(UnsupportedError, match="outside its own folder"):
            rows = read()
            rows.read_all()
    only_below(touched, tmp_path / "t")
    if "http" not in spell:
        named = lakebed.open(tmp_path / "t", {"lakebed.storage.places": str(victim)})
        assert named.read().read_all().num_rows == 1


@pytest.mark.parametrize("name", ["manifest-list", "manifest"])
def test_manifests_outside_are_not_read(name: str, tmp_path: Path, victim: Path, touched: set[str]) -> None:
    create(tmp_path / "t", 1)
    (real,) = (tmp_path / "t" / "metadata").glob("snap-*.avro")
    shutil.copy(real, victim / real.name)

    def change(document: dict[str, Any]) -> None:
        for snapshot in document["snapshots"]:
            if name == "manifest":
                del snapshot["manifest-list"]
                snapshot["manifests"] = [f"{victim}/{real.name}"]
            else:
                snapshot["manifest-list"] = f"{victim}/{real.name}"

    edit(tmp_path / "t", change)
    table = lakebed.open(tmp_path / "t")
    for act in (
        table.read,
        lambda: table.expire(options=ORPHANS),
        lambda: table.write(pa.table({"id": [1]})),
        table.rewrite,
    ):
        with pytest.raises(UnsupportedError, match="outside its own folder"):
            act()
    assert "outside its own folder" in str(table.inspect().findings)
    only_below(touched, tmp_path / "t")


def test_orphans_are_sought_where_the_caller_says(tmp_path: Path, victim: Path) -> None:
    table = create(tmp_path / "t")
    done = table.expire(options={**ORPHANS, "location": str(victim)})
    assert set(done.deleted_files) == {"thesis.tex", "v1.metadata.json"}
    (tmp_path / "alias").symlink_to(tmp_path / "t")
    for folder in (tmp_path / "alias", tmp_path / "alias" / "data"):
        with pytest.raises(UsageError, match="own folder under another name"):
            table.expire(options={**ORPHANS, "location": str(folder)})


# ---- code ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["write.py-location-provider.impl", "write.location-provider.impl"])
def test_a_location_provider_of_the_table_is_not_run(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "evil_module.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    create(tmp_path / "t")
    edit(tmp_path / "t", lambda document: document["properties"].update({key: "evil_module.Provider"}))
    table = lakebed.open(tmp_path / "t")
    assert ids(table) == [0, 1, 2]
    for change in (lambda: table.write(pa.table({"id": [1]})), lambda: table.rewrite(dry_run=True)):
        with pytest.raises(UnsupportedError, match="lakebed runs nothing that a table names"):
            change()
    assert not (tmp_path / "ran").exists()


# ---- a copy, or a table that was moved -------------------------------------------------------------------------------


def changes_of(table: Any) -> Mapping[str, Callable[[], object]]:
    rows = pa.table({"id": [9]})
    return {
        "append": lambda: table.write(rows), "overwrite": lambda: table.write(rows, "overwrite"),
        "writer": lambda: table.writer(), "rewrite": lambda: table.rewrite(),
        "dry rewrite": lambda: table.rewrite(dry_run=True),
        "position deletes": lambda: table.rewrite(options={"lakebed.rewrite.what": "position-deletes"}),
        "manifests": lambda: table.rewrite(options={"lakebed.rewrite.what": "manifests"}),
        "expire": lambda: table.expire(options=FAR), "dry expire": lambda: table.expire(True, options=FAR),
        "orphans": lambda: table.expire(options=ORPHANS), "tag": lambda: table.tag("x"),
        "delete tag": lambda: table.delete_tag("old"), "branch": lambda: table.branch("b"),
        "publish": lambda: commits.append(table.operations, [DataFile(f"{table.location}/f", "PARQUET", 0, (), 1, 1)]),
    }  # fmt: skip


def test_a_copy_is_read_where_it_lies_and_changes_neither(tmp_path: Path, touched: set[str]) -> None:
    original = create(tmp_path / "orig")
    original.tag("old")
    shutil.copytree(tmp_path / "orig", tmp_path / "copy")
    original.write(pa.table({"id": [3]}))
    for path in (tmp_path / "orig").rglob("*"):
        os.utime(path, (0, 0))
    before = content(tmp_path / "orig"), content(tmp_path / "copy")
    touched.clear()
    copy = lakebed.open(tmp_path / "copy")
    for name, change in changes_of(copy).items():
        with pytest.raises(UnsupportedError, match=r"says that it lies at .*orig"):
            change()
            raise AssertionError(name)
    with pytest.warns(ReadWarning, match="it is a copy or was moved"):
        assert ids(copy) == [0, 1, 2]
    with pytest.warns(ReadWarning, match="orig"):
        assert copy.changes().read_all().num_rows == 3
    with pytest.warns(ReadWarning, match="orig"):
        copy.stream()
    assert "says that the table lies at" in str(copy.inspect().findings)
    only_below(touched, tmp_path / "copy")
    assert (content(tmp_path / "orig"), content(tmp_path / "copy")) == before


def test_a_moved_table_is_read_and_one_that_lacks_files_says_so(tmp_path: Path) -> None:
    create(tmp_path / "orig").tag("old")
    (tmp_path / "orig").rename(tmp_path / "moved")
    moved = lakebed.open(tmp_path / "moved")
    with pytest.warns(ReadWarning, match="moved"):
        assert ids(moved) == [0, 1, 2]
    assert "says that the table lies at" in str(moved.inspect().findings)
    shutil.rmtree(tmp_path / "moved" / "data")
    with pytest.warns(ReadWarning), pytest.raises(DataCleanedError, match="this file did not come along"):
        moved.read().read_all()


def test_the_table_by_another_name_is_the_table(tmp_path: Path) -> None:
    create(tmp_path / "t", 1)
    (tmp_path / "alias").symlink_to(tmp_path / "t")
    alias = lakebed.open(tmp_path / "alias")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alias.write(pa.table({"id": [5]}))
        assert ids(alias) == [0, 5] == ids(lakebed.open(tmp_path / "t"))
    for path in (tmp_path / "t").rglob("*"):
        os.utime(path, (0, 0))
    assert alias.expire(options=ORPHANS).deleted_files == ()
    alias.expire(options=FAR)
    assert ids(alias) == [0, 5]


@pytest.mark.parametrize("location", ["hdfs://name:8020/warehouse/t", "s3://bucket/t", "relative/t", "/"])
def test_a_table_from_elsewhere(location: str, tmp_path: Path) -> None:
    """It was copied from a store that cannot be reached: files below its old location are looked up here."""
    create(tmp_path / "t", 0)
    edit(tmp_path / "t", lambda document: document.update(location=location))
    table = lakebed.open(tmp_path / "t")
    with pytest.raises(UnsupportedError, match="says that it lies at"):
        table.write(pa.table({"id": [1]}))
    files = Files(open_store(tmp_path / "t"), made_at=location.rstrip("/"), locked="moved")
    (tmp_path / "t" / "f").write_bytes(b"x")
    if ":" in location:
        assert files.read(f"{location}/f") == b"x"
    with pytest.raises(LakebedError):
        files.read(f"{location}/../f")
    with pytest.raises(LakebedError):
        files.write(f"{location}/g", b"x")


def test_the_caller_may_name_the_place_where_a_copy_was_made(tmp_path: Path) -> None:
    create(tmp_path / "orig", 2)
    shutil.copytree(tmp_path / "orig" / "metadata", tmp_path / "copy" / "metadata")
    copy = lakebed.open(tmp_path / "copy", {"lakebed.storage.places": str(tmp_path / "orig")})
    with pytest.warns(ReadWarning):
        assert ids(copy) == [0, 1]
    with pytest.raises(UnsupportedError, match="says that it lies at"):
        copy.expire(options=ORPHANS)


def test_files_pickle_with_their_places(tmp_path: Path) -> None:
    files = Files(open_store(tmp_path), named=["/x"], made_at="/old", locked="why")
    same = pickle.loads(pickle.dumps(files))
    assert (same.home.location, same.named, same.made_at, same.locked) == (str(tmp_path), ("/x",), "/old", "why")
    assert HadoopTable(open_store(tmp_path)).moved_from == ""
