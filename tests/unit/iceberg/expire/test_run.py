"""Expiring snapshots and removing orphan files: what is removed, what stays and why, and no live file is lost."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import lakebed
from lakebed.errors import CommitConflictError, NotInHistoryError, OptionError, UnsupportedError, UsageError
from lakebed.formats.iceberg.codec.metadata import metadata_to_json
from lakebed.formats.iceberg.commit.loop import change_metadata
from lakebed.formats.iceberg.expire.options import parsed
from lakebed.formats.iceberg.expire.orphans import _KnownFiles
from lakebed.formats.iceberg.table import IcebergTable
from tests.golden import names, opening, unpack
from tests.tables.iceberg import commits
from tests.tables.iceberg.small import create, data_file, equality_deletes, ids

ALL = {"older-than": "2100-01-01"}


def files(table: IcebergTable) -> set[str]:
    root = Path(table.location)
    return {
        str(p.relative_to(root))
        for p in root.rglob("*")
        if p.is_file() and p.suffix in (".avro", ".parquet", ".puffin")
    }


def history(path: Path) -> IcebergTable:
    """Append, delete, overwrite, append."""
    table = create(path)
    commits.append(table.operations, [data_file(table, [1, 2]), data_file(table, [3], "b")])
    commits.row_delta(table.operations, [], [equality_deletes(table, [1])])
    commits.overwrite(table.operations, [data_file(table, [9])], [(0, ("a",))])
    commits.append(table.operations, [data_file(table, [10])])
    return table


@pytest.mark.slow
def test_only_what_the_newest_snapshot_needs_stays(tmp_path: Path) -> None:
    table = history(tmp_path / "t")
    before, rows = files(table), ids(table)
    planned = table.expire(dry_run=True, options=ALL)
    assert files(table) == before and len(table.history()) == 4
    done = table.expire(options=ALL)
    assert (planned.expired, planned.deleted_files) == (done.expired, done.deleted_files)
    assert len(done.expired) == 3 and [kept.reason for kept in done.kept] == ["branch main is at it"]
    assert ids(table) == rows == [3, 9, 10]
    assert set(done.deleted_files) == before - files(table)
    assert sum(name.endswith(".parquet") for name in done.deleted_files) == 2  # rows 1 and 2, and their delete
    assert len(table.table_metadata.snapshot_log) == 1
    commits.append(table.operations, [data_file(table, [11])])
    assert ids(table) == [3, 9, 10, 11]


def test_numbers_ages_and_refs_keep_snapshots(tmp_path: Path) -> None:
    table = history(tmp_path / "t")
    old = [int(i.time) for i in table.history()]
    assert table.expire().expired == ()  # all are younger than five days
    assert len(table.expire(dry_run=True, options={**ALL, "retain_last": 3}).expired) == 1
    table.tag("first", old[0])
    done = table.expire(options=ALL)
    assert set(map(int, done.expired)) == {*old[1:3]}
    assert ids(table, as_of="tag:first") == [1, 2, 3]
    assert {kept.reason for kept in done.kept} == {"branch main is at it", "tag first is at it"}
    table.delete_tag("first")
    table.branch("side", old[0])
    assert table.expire(options=ALL).expired == ()  # D20: the head of a branch stays, however old
    change_metadata(table.operations, lambda m: ([], [{
        "action": "set-snapshot-ref", "ref-name": "side", "type": "branch", "snapshot-id": old[0], "max-ref-age-ms": 1,
    }]))  # fmt: skip
    time.sleep(0.01)
    assert table.expire(options=ALL).expired == (str(old[0]),)
    assert {*table.table_metadata.refs} == {"main"}


def test_named_snapshots_go(tmp_path: Path) -> None:
    table = history(tmp_path / "t")
    old = [int(i.time) for i in table.history()]
    assert table.expire(options={"snapshot-ids": f"{old[1]}"}).expired == (str(old[1]),)
    with pytest.raises(UsageError, match="main is at it"):
        table.expire(options={"snapshot-ids": f"{old[3]}"})
    with pytest.raises(NotInHistoryError):
        table.expire(options={"snapshot-ids": "5"})
    with pytest.raises(OptionError, match="older-than"):
        table.expire(options={"older-then": "2020-01-01"})


def evolved(table: IcebergTable) -> None:
    """A second schema and a second spec, each with rows, and a third schema without rows."""

    def column(id: int) -> Any:
        return {"id": id, "name": f"c{id}", "required": False, "type": "long"}

    def step(document: dict[str, Any], schema: int, spec: int) -> None:
        newest = document["schemas"][-1]
        document["schemas"].append({**newest, "schema-id": schema, "fields": [*newest["fields"], column(10 + schema)]})
        document |= {"current-schema-id": schema, "last-column-id": 10 + schema}
        if spec:
            document["partition-specs"].append({"spec-id": spec, "fields": []})
            document["default-spec-id"] = spec

    for schema, spec in ((1, 1), (2, 0)):
        edit(table, lambda document, a=schema, b=spec: step(document, a, b))
        if spec:
            table.write(rows_of(table, 20))


def rows_of(table: IcebergTable, id: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": id}], table.schema)


def edit(table: IcebergTable, change: Any) -> None:
    """Write the next metadata file of a hadoop table, changed by hand."""
    base = table.operations.load()
    document = json.loads(metadata_to_json(base.metadata.document))
    change(document)
    number = int(Path(base.location).name[1:].partition(".")[0]) + 1
    folder = Path(table.location) / "metadata"
    (folder / f"v{number}.metadata.json").write_text(json.dumps(document))
    (folder / "version-hint.text").write_text(str(number))


def test_schemas_and_specs_go_with_the_last_snapshot_that_used_them(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    commits.append(table.operations, [data_file(table, [1], "a")])
    table.tag("old")
    evolved(table)
    rows = ids(table)
    assert [*table.table_metadata.schemas] == [0, 1, 2] and [*table.table_metadata.specs] == [0, 1]
    clean = {**ALL, "clean-expired-metadata": True}
    assert (
        table.expire(options=ALL).notes == () and len(table.table_metadata.schemas) == 3
    )  # only where it is asked for
    assert table.expire(options=clean).notes == ()  # 0 by the tag, 1 by the newest snapshot, 2 by writers
    table.delete_tag("old")
    planned = table.expire(dry_run=True, options={**ALL, "clean_expired_metadata": "true"})
    assert len(table.table_metadata.schemas) == 3 and "schema 0 goes" in planned.notes[0]
    table.expire(options=clean)
    assert [*table.table_metadata.schemas] == [1, 2] and [*table.table_metadata.specs] == [
        0,
        1,
    ]  # a manifest of spec 0 is in use
    assert ids(table) == rows
    commits.overwrite(table.operations, [], [(0, ("a",))])
    table.write(rows_of(table, 30))  # the manifest that recorded the removal is gone with it
    done = table.expire(options=clean)
    assert [note.partition(":")[0] for note in done.notes] == ["schema 1 goes", "partition spec 0 goes"]
    assert [*table.table_metadata.schemas] == [2] and [*table.table_metadata.specs] == [1]
    assert ids(table) == [20, 30]


@pytest.mark.slow
def test_schemas_go_from_tables_of_catalogs(tmp_path: Path) -> None:
    unpack("iceberg", "schema_evolution", into=tmp_path)
    options = {"lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{tmp_path}/catalog.db"}
    table: Any = lakebed.open("ice:db.schema_evolution", options)
    rows = sorted(map(str, table.read().read_all().to_pylist()))
    known = len(table.table_metadata.schemas)
    done = table.expire(options={**ALL, "clean-expired-metadata": True})
    left = table.table_metadata
    assert len(done.notes) == known - len(left.schemas) > 0 and left.current_schema_id in left.schemas
    assert sorted(map(str, table.read().read_all().to_pylist())) == rows
    catalog = SqlCatalog("ice", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    assert {*catalog.load_table("db.schema_evolution").schemas()} == {*left.schemas}


def test_the_current_schema_never_goes(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    for words in (
        {"action": "remove-schemas", "schema-ids": [0]},
        {"action": "remove-partition-specs", "spec-ids": [0]},
    ):
        with pytest.raises(UsageError, match="in use"):
            change_metadata(table.operations, lambda m, w=words: ([], [w]))
    unmet = {"type": "assert-current-schema-id", "current-schema-id": 7}
    with pytest.raises(CommitConflictError):
        change_metadata(table.operations, lambda m: ([unmet], [{"action": "remove-schemas", "schema-ids": [1]}]))


def test_nothing_goes_without_garbage_collection(tmp_path: Path) -> None:
    table = create(tmp_path / "t", **{"gc.enabled": "false"})
    with pytest.raises(UnsupportedError, match="may not be deleted"):
        table.expire()
    with pytest.raises(UnsupportedError, match="may not be deleted"):
        table.expire(options={"expire-snapshots": False, "remove-orphan-files": True})


@pytest.mark.slow
@pytest.mark.parametrize("name", names("iceberg"))
def test_golden_tables_keep_their_rows(name: str, tmp_path: Path) -> None:
    folder = unpack("iceberg", name, into=tmp_path)
    options = {"lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{tmp_path}/catalog.db"}
    by_path = name in ("hadoop_v2", "variant_v3")
    table: Any = lakebed.open(folder) if by_path else lakebed.open(f"ice:db.{name}", {**options, **opening(folder)})
    if name == "variant_v3":
        with pytest.raises(UnsupportedError, match="belongs to a catalog"):
            table.expire(dry_run=True, options=ALL)
        return
    count = table.read().read_all().num_rows
    refs = set(table.table_metadata.refs)
    table.expire(options=ALL)
    assert table.read().read_all().num_rows == count
    assert set(table.table_metadata.refs) == refs
    for ref in refs - {"main"}:
        word = "branch" if table.table_metadata.refs[ref].is_branch else "tag"
        table.read(as_of=f"{word}:{ref}").read_all()


# ---- orphans ---------------------------------------------------------------------------------------------------------

ORPHANS = {"expire-snapshots": "false", "remove-orphan-files": "true"}


def aged(path: Path, days: float) -> None:
    then = time.time() - days * 86400
    os.utime(path, (then, then))


@pytest.mark.slow
def test_old_files_that_no_snapshot_knows_go(tmp_path: Path) -> None:
    table = history(tmp_path / "t")
    root = tmp_path / "t"
    strays = [root / "data/p=a/stray.parquet", root / "metadata/stray-m0.avro"]
    spared = [root / "data/_tmp/x.parquet", root / "data/.hidden.parquet", root / "data/young.parquet"]
    for path in (*strays, *spared):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    for path in root.rglob("*"):
        if path.is_file():
            aged(path, 10)
    aged(root / "data/young.parquet", 2)
    known = files(table)
    planned = table.expire(dry_run=True, options=ORPHANS)
    assert sorted(planned.deleted_files) == ["data/p=a/stray.parquet", "metadata/stray-m0.avro"]
    assert [kept.what for kept in planned.kept] == ["data/young.parquet"]
    assert files(table) == known
    assert table.expire(options=ORPHANS).deleted_files == planned.deleted_files
    assert not any(path.exists() for path in strays) and all(path.exists() for path in spared)
    assert ids(table) == [3, 9, 10]
    for instant in table.history():
        ids(table, as_of=instant)
    assert table.expire(options=ORPHANS).deleted_files == ()


def test_files_of_writers_at_work_are_safe(tmp_path: Path) -> None:
    table = history(tmp_path / "t")
    with pytest.raises(OptionError, match="less than 24 hours"):
        table.expire(options={**ORPHANS, "orphan-files-older-than": "2100-01-01"})
    waiting = data_file(table, [77])
    assert table.expire(options=ORPHANS).deleted_files == ()
    commits.append(table.operations, [waiting])
    assert 77 in ids(table)


@pytest.mark.parametrize(
    ("known", "listed", "options", "same"),
    [
        ("s3a://b/x", "s3://b/x", {}, True), ("file:/x/y", "/x/y", {}, True), ("file:///x/y", "/x/y", {}, True),
        ("s3://b/x", "s3://c/x", {"equal-authorities": "c=b"}, True),
        ("oss://b/x", "s3://b/x", {"equal-schemes": "oss=s3"}, True), ("s3://b/x", "s3://b/y", {}, False),
    ],
)  # fmt: skip
def test_one_file_in_many_spellings(known: str, listed: str, options: dict[str, str], same: bool) -> None:
    found = _KnownFiles([known], parsed(options))
    assert found.has(listed) is same
    assert not found.has_elsewhere("s3://b/other", "t")


def test_a_path_under_another_host_stops_the_run() -> None:
    with pytest.raises(UsageError, match="another scheme or host"):
        _KnownFiles(["s3://b/x"], parsed({})).has_elsewhere("s3://c/x", "t")
    assert _KnownFiles(["s3://b/x"], parsed({"prefix-mismatch-mode": "ignore"})).has_elsewhere("s3://c/x", "t")
    assert not _KnownFiles(["s3://b/x"], parsed({"prefix-mismatch-mode": "delete"})).has_elsewhere("s3://c/x", "t")
