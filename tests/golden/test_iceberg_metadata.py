"""Metadata, manifests and history of every golden table say what Spark's metadata tables say."""

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from lakebed.formats.iceberg.catalog.table import CatalogTable, HadoopTable, Loaded, parse_identifier
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import ALL_COLUMNS, read_entries, read_manifest_list
from lakebed.formats.iceberg.snapshot import history
from lakebed.kernel.files import open_store
from tests.golden import expected, names, unpack
from tests.tables.iceberg.place import WRITTEN_AT

TABLES = names("iceberg")
WITH_FILES = [name for name in TABLES if name not in ("uuid_time_fixed",)]  # Spark refuses its time column


def opened(name: str) -> tuple[Path, Files, Loaded]:
    table = unpack("iceberg", name)
    operations = HadoopTable(open_store(table))
    return table, operations.files, operations.load()


def answers(name: str, file: str) -> Any:
    return json.loads((expected(unpack("iceberg", name)) / file).read_text(encoding="utf-8"))


def plain(value: Any, table: Path) -> Any:
    """Our values as the expected files spell them."""
    if isinstance(value, bytes):
        return {"$bin": value.hex()}
    if isinstance(value, datetime.datetime):
        zone = value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
        return {"$ts": zone.isoformat()}
    if isinstance(value, datetime.date):
        return {"$date": value.isoformat()}
    if isinstance(value, str):
        raw = str(table.with_name("raw"))
        return value.removeprefix("file:").replace(str(table) + "/", "").replace(raw, f"{WRITTEN_AT}/raw")
    if isinstance(value, dict):
        return {key: plain(item, table) for key, item in value.items()}
    return value


def pairs(value: Any, table: Path) -> Any:
    if value is None:
        return None
    found = [[key, plain(item, table)] for key, item in value]
    return {"$map": sorted(found, key=lambda pair: str(pair[0]))}


def live(files: Files, metadata: TableMetadata, snapshot: Snapshot | None, **options: Any) -> list[dict[str, Any]]:
    manifests = read_manifest_list(files, snapshot) if snapshot else []
    found = []
    for spec_id in {m.spec_id for m in manifests}:
        of_spec = [m for m in manifests if m.spec_id == spec_id]
        found += read_entries(files, metadata, of_spec, ALL_COLUMNS, **options).to_pylist()
    return found


@pytest.mark.parametrize("name", TABLES)
def test_the_current_metadata_is_found_by_path_and_by_catalog(name: str) -> None:
    table, _, loaded = opened(name)
    meta = answers(name, "meta.json")
    assert loaded.location.endswith(meta["metadata_file"])
    assert loaded.metadata.format_version == meta.get("format_version", 2)
    operations = CatalogTable(
        parse_identifier(f"ice:db.{name}"),
        {"lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{table.parent}/catalog.db"},
    )
    assert operations.load().metadata.document == loaded.metadata.document


@pytest.mark.parametrize("name", WITH_FILES)
def test_live_files_are_those_of_spark(name: str) -> None:
    table, files, loaded = opened(name)
    wanted = answers(name, "files.json")["files"]
    found = {}
    for row in live(files, loaded.metadata, loaded.metadata.head()):
        row = {key: pairs(item, table) if isinstance(item, list) and key.endswith(("counts", "sizes", "bounds"))
               else plain(item, table) for key, item in row.items()}  # fmt: skip
        found[row["file_path"], row["content_offset"]] = row
    assert len(found) == len(wanted)
    for file in wanted:
        mine = found[file["file_path"].removeprefix("file:"), file.get("content_offset")]
        fields = set(file) - {"partition", "file_size_in_bytes", "lower_bounds", "upper_bounds"}
        if file["content"] == 0:  # laying a table changes its delete files
            fields |= {"file_size_in_bytes", "lower_bounds", "upper_bounds"}
        for field in fields:
            assert mine[field] == plain(file[field], table), (file["file_path"], field)
        for field, value in (file.get("partition") or {}).items():
            assert mine["partition"].get(field) == value or value is None, (file["file_path"], field)


@pytest.mark.parametrize("name", WITH_FILES)
def test_entries_are_those_of_spark(name: str) -> None:
    table, files, loaded = opened(name)
    wanted = answers(name, "files.json")["entries"]
    fields = ("content", "file_path", "file_sequence_number", "sequence_number", "snapshot_id", "status")
    found = [
        tuple(plain(row[f], table) for f in fields)
        for row in live(files, loaded.metadata, loaded.metadata.head(), live_only=False)
    ]
    assert sorted(found) == sorted(tuple(plain(entry[f], table) for f in fields) for entry in wanted)


@pytest.mark.parametrize("name", WITH_FILES)
def test_snapshots_refs_and_manifests_are_those_of_spark(name: str) -> None:
    table, files, loaded = opened(name)
    metadata, wanted = loaded.metadata, answers(name, "files.json")
    for row in wanted["snapshots"]:
        mine = metadata.snapshots[row["snapshot_id"]]
        summary = {key: value for key, value in mine.summary.items() if key != "operation"}
        assert {"$map": sorted([key, value] for key, value in summary.items())} == row["summary"]
        assert (mine.parent_id, mine.operation) == (row["parent_id"], row["operation"])
        assert plain(mine.manifest_list, table) == row["manifest_list"]
        time = datetime.datetime.fromtimestamp(mine.timestamp_ms / 1000, datetime.UTC)
        assert plain(time, table) == row["committed_at"]
    assert len(metadata.snapshots) == len(wanted["snapshots"])
    refs = {
        ref.name: (
            "BRANCH" if ref.is_branch else "TAG", ref.snapshot_id, ref.max_ref_age_ms, ref.max_snapshot_age_ms,
            ref.min_snapshots_to_keep,
        )
        for ref in metadata.refs.values()
    }  # fmt: skip
    fields = ("type", "snapshot_id", "max_reference_age_in_ms", "max_snapshot_age_in_ms", "min_snapshots_to_keep")
    assert refs == {row["name"]: tuple(row[f] for f in fields) for row in wanted["refs"]}
    head = metadata.head()
    manifests = {plain(m.path, table): m for m in (read_manifest_list(files, head) if head else [])}
    assert set(manifests) == {row["path"] for row in wanted["manifests"]}
    for row in wanted["manifests"]:
        mine_m = manifests[row["path"]]
        kind = "delete" if row["content"] else "data"
        counts = ("added", "existing", "deleted")
        assert [getattr(mine_m, f"{c}_files_count") for c in counts] == [row[f"{c}_{kind}_files_count"] for c in counts]
        assert mine_m.content == row["content"]
        assert (mine_m.spec_id, mine_m.added_snapshot_id) == (row["partition_spec_id"], row["added_snapshot_id"])
        assert mine_m.length == (table / row["path"]).stat().st_size
        assert len(mine_m.partitions or ()) == len(row["partition_summaries"])
        for summary, theirs in zip(mine_m.partitions or (), row["partition_summaries"], strict=True):
            assert (summary.contains_null, summary.contains_nan) == (theirs["contains_null"], theirs["contains_nan"])


@pytest.mark.parametrize("name", TABLES)
def test_history_is_that_of_spark(name: str) -> None:
    table, _, loaded = opened(name)
    wanted = answers(name, "history.json") if (expected(table) / "history.json").exists() else []
    made_current = [
        (datetime.datetime.fromtimestamp(time / 1000, datetime.UTC), snapshot)
        for time, snapshot in loaded.metadata.snapshot_log
    ]
    theirs = sorted((row["made_current_at"]["$ts"], row["snapshot_id"]) for row in wanted)
    assert [(plain(time, table)["$ts"], s) for time, s in made_current] == theirs or not wanted
    assert len(history(loaded.metadata)) == len(loaded.metadata.snapshots)
