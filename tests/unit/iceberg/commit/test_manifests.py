"""Manifests and manifest lists that lakebed writes have the reference engine's schemas and the same entries, and
pyiceberg reads them."""

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestContent
from pyiceberg.manifest import ManifestFile as PyManifest

from lakebed.errors import CorruptError
from lakebed.formats.iceberg.catalog.table import HadoopTable
from lakebed.formats.iceberg.codec.avro_file import decode_columns, open_container
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile, decode_manifest_list
from lakebed.formats.iceberg.codec.manifest_write import ManifestEncoder, encode_manifest_list
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import ALL_COLUMNS, read_entries, read_manifest_list
from lakebed.kernel.files import open_store
from tests.golden import names, unpack

TABLES = names("iceberg")


def all_manifests(name: str) -> tuple[Files, TableMetadata, list[ManifestFile]]:
    operations = HadoopTable(open_store(unpack("iceberg", name)))
    metadata = operations.load().metadata
    found = {m.path: m for s in metadata.snapshots.values() for m in read_manifest_list(operations.files, s)}
    return operations.files, metadata, list(found.values())


def records(data: bytes) -> tuple[dict[str, Any], list[Any]]:
    reader = fastavro.reader(io.BytesIO(data))
    rows = list(reader)
    return dict(reader.metadata), rows


def undocumented(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: undocumented(value) for key, value in schema.items() if key != "doc"}
    return [undocumented(item) for item in schema] if isinstance(schema, list) else schema


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_a_manifest_written_again_says_the_same(name: str) -> None:
    files, metadata, manifests = all_manifests(name)
    for manifest in manifests:
        original = files.read(manifest.path)
        header, theirs = records(original)
        if int(header["format-version"]) != metadata.format_version:
            continue  # written before the table was upgraded
        entries = read_entries(files, metadata, [manifest], ALL_COLUMNS, live_only=False)
        encoder = ManifestEncoder(
            metadata, metadata.specs[manifest.spec_id], manifest.content, manifest.added_snapshot_id or 0
        )
        (written,) = encoder.write(entries)
        mine_header, mine = records(written.data)
        assert undocumented(json.loads(mine_header["avro.schema"])) == undocumented(json.loads(header["avro.schema"]))
        assert json.loads(mine_header["partition-spec"]) == json.loads(header["partition-spec"])
        kept = set(header) - {"avro.schema", "iceberg.schema", "schema", "partition-spec"}
        assert {key: mine_header[key] for key in kept} == {key: header[key] for key in kept}
        assert set(mine_header) == set(header) - {"iceberg.schema"}
        for ours, given in zip(mine, theirs, strict=True):
            for key in ("snapshot_id", "sequence_number", "file_sequence_number"):
                if key in given and given[key] is None:
                    ours.pop(key), given.pop(key)  # inherited: ours says it
            if given["data_file"].get("first_row_id", 0) is None:
                ours["data_file"].pop("first_row_id"), given["data_file"].pop("first_row_id")
            given["data_file"]["file_format"] = given["data_file"]["file_format"].upper()
            assert ours == given
        for field in ("content", "spec_id", "added_snapshot_id", "partitions", *(
            f"{k}_{what}_count" for k in ("added", "existing", "deleted") for what in ("files", "rows")
        )):  # fmt: skip
            assert getattr(written.file, field) == getattr(manifest, field), field


@pytest.mark.parametrize("name", TABLES)
def test_a_manifest_list_written_again_says_the_same(name: str) -> None:
    operations = HadoopTable(open_store(unpack("iceberg", name)))
    metadata = operations.load().metadata
    for snapshot in metadata.snapshots.values():
        header, theirs = records(operations.files.read(snapshot.manifest_list))
        if int(header["format-version"]) != metadata.format_version:
            continue
        manifests = read_manifest_list(operations.files, snapshot)
        data = encode_manifest_list(
            metadata.format_version, manifests, snapshot.snapshot_id, snapshot.parent_id, snapshot.sequence_number,
            snapshot.first_row_id,
        )  # fmt: skip
        mine_header, mine = records(data)
        assert mine == theirs
        assert undocumented(json.loads(mine_header["avro.schema"])) == undocumented(json.loads(header["avro.schema"]))
        kept = set(header) - {"avro.schema", "iceberg.schema"}
        assert {key: mine_header[key] for key in kept} == {key: header[key] for key in kept}
        assert decode_manifest_list(data) == manifests


@pytest.mark.parametrize(
    "name", ["special_partitions", "transforms", "transforms_time", "pos_deletes", "years_and_void_v1"]
)
def test_pyiceberg_reads_what_we_write(name: str, tmp_path: Path) -> None:
    files, metadata, manifests = all_manifests(name)
    for number, manifest in enumerate(manifests):
        entries = read_entries(files, metadata, [manifest], ALL_COLUMNS, live_only=False)
        encoder = ManifestEncoder(metadata, metadata.specs[manifest.spec_id], manifest.content, 7)
        (written,) = encoder.write(entries)
        path = tmp_path / f"{number}.avro"
        path.write_bytes(written.data)
        read = PyManifest.from_args(
            _table_format_version=2, manifest_path=str(path), manifest_length=written.file.length,
            partition_spec_id=manifest.spec_id, content=ManifestContent(manifest.content), sequence_number=1,
            min_sequence_number=1, added_snapshot_id=7,
        ).fetch_manifest_entry(PyArrowFileIO(), discard_deleted=False)  # fmt: skip
        assert [e.data_file.file_path for e in read] == entries["file_path"].to_pylist()
        assert [e.data_file.record_count for e in read] == entries["record_count"].to_pylist()
        for entry, row in zip(read, entries.to_pylist(), strict=True):
            assert dict(entry.data_file.lower_bounds or {}) == dict(row["lower_bounds"] or {})


@pytest.mark.slow
def test_a_manifest_ends_at_its_target_size() -> None:
    files, metadata, manifests = all_manifests("many_small")
    entries = pa.concat_tables([read_entries(files, metadata, manifests, ALL_COLUMNS)] * 100)
    encoder = ManifestEncoder(metadata, metadata.spec, 0, 1)
    written = list(encoder.write(entries, target_bytes=200_000))
    assert len(written) > 1
    assert all(200_000 <= w.file.length < 400_000 for w in written[:-1])
    assert sum(w.file.added_files_count or 0 for w in written) == len(entries) == 20_000
    assert [w.file.length for w in written] == [len(w.data) for w in written]


def test_a_manifest_whose_files_may_be_null_is_refused() -> None:
    """No writer may create one: its files would be read as nothing."""
    file = {
        "type": "record", "name": "r2", "fields": [{"name": "file_path", "type": "string", "field-id": 100}],
    }  # fmt: skip
    entry = {
        "type": "record", "name": "manifest_entry",
        "fields": [
            {"name": "status", "type": "int", "field-id": 0},
            {"name": "data_file", "type": ["null", file], "field-id": 2},
        ],
    }  # fmt: skip
    sink = io.BytesIO()
    fastavro.writer(sink, entry, [{"status": 1, "data_file": {"file_path": "a"}}])
    container = open_container(sink.getvalue())
    with pytest.raises(CorruptError, match="'data_file' may be null"):
        decode_columns([container], {0, 100}, "m.avro")
