"""A table that names encryption keys is neither read nor written, in any format version: lakebed would write its rows
unencrypted."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import UnsupportedError
from lakebed.formats.iceberg.codec.manifest_write import encode_manifest_list
from lakebed.formats.iceberg.data_files import DataFile
from lakebed.formats.iceberg.manifests import read_manifest_list
from tests.tables.iceberg import commits

ROWS = pa.schema([("id", pa.int64())])


def on_metadata(table: Any, folder: Path) -> list[Callable[[], object]]:
    """Uses that meet no data file."""
    return [
        lambda: lakebed.open(folder / "t"), lambda: table.tag("x"), lambda: table.delete_tag("x"), table.inspect,
        lambda: table.branch("x"), lambda: table.delete_branch("x"), lambda: table.fast_forward("x"), table.refs,
        lambda: table.retain("main", {"max-ref-age-ms": 1}), lambda: table.cherry_pick(1), lambda: table.publish("x"),
        lambda: table.rollback(1), lambda: table.alter(lakebed.add_column("n", "int32")), table.history,
        lambda: table.alter(lakebed.set_option("encryption.key-id", "")), table.repair, table.relocate,
        lambda: table.rewrite_table_path(str(folder / "to"), str(folder / "staging")),
        lambda: table.add_files(str(next((folder / "t" / "data").glob("*.parquet")))),
        lambda: table.stream().latest(), lambda: table.metadata("snapshots"),
        lambda: lakebed.open(folder / "t", {"branch": "x"}), lambda: table.schema, lambda: table.writer(),
    ]  # fmt: skip


def create(folder: Path, version: str = "3") -> Any:
    table = lakebed.create(folder, "iceberg", ROWS, options={"format-version": version})
    table.write(pa.table({"id": [1]}))
    return table


def uses(table: Any) -> list[Callable[[], object]]:
    return [
        lambda: table.read().read_all(), lambda: table.changes().read_all(), lambda: table.write(pa.table({"id": [2]})),
        lambda: table.write(pa.table({"id": [2]}), "overwrite"), lambda: table.rewrite(options={"rewrite-all": True}),
        lambda: table.expire(options={"expire-snapshots": "false", "remove-orphan-files": "true"}),
        lambda: table.rewrite(options={"lakebed.rewrite.what": "manifests"}),
        lambda: table.metadata("files").read_all(),
    ]  # fmt: skip


@pytest.mark.parametrize("version", ["1", "2", "3"])
@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["properties"].update({"encryption.key-id": "k"}),
        lambda document: document.update({"encryption-keys": [{"key-id": "k", "encrypted-key-metadata": "AA=="}]}),
        lambda document: document["snapshots"][0].update({"key-id": "k"}),
    ],
    ids=["property", "keys", "snapshot"],
)
def test_a_table_that_names_a_key(change: Callable[[dict[str, Any]], None], version: str, tmp_path: Path) -> None:
    table = create(tmp_path / "t", version)
    newest = tmp_path / "t" / "metadata" / "v2.metadata.json"
    document = json.loads(newest.read_text())
    change(document)
    newest.write_text(json.dumps(document))
    before = sorted(tmp_path.rglob("*"))
    for use in (*uses(table), *on_metadata(table, tmp_path)):
        with pytest.raises(UnsupportedError, match="the table is encrypted"):
            use()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_new_table_gets_no_key(tmp_path: Path) -> None:
    options = {"lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{tmp_path}/catalog.db"}
    for place, more in ((tmp_path / "t", {}), ("ice:db.t", options)):
        with pytest.raises(UnsupportedError, match="the table is encrypted"):
            lakebed.create(place, "iceberg", ROWS, options={"encryption.key-id": "k", **more})
    assert not (tmp_path / "t").exists()


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1", "2", "3"])
@pytest.mark.parametrize("what", ["manifest", "data file"])
def test_a_file_that_has_a_key(what: str, version: str, tmp_path: Path) -> None:
    table = create(tmp_path / "t", version)
    metadata = table.table_metadata
    head = metadata.head()
    if what == "manifest":
        manifests = [replace(one, key_metadata=b"k") for one in read_manifest_list(table.operations.files, head)]
        data = encode_manifest_list(
            int(version), manifests, head.snapshot_id, head.parent_id, head.sequence_number, head.first_row_id
        )
        table.operations.files.write(head.manifest_list, data)
    else:
        (file,) = (tmp_path / "t" / "data").glob("*.parquet")
        copy = file.with_name("copy.parquet")
        copy.write_bytes(file.read_bytes())
        added = DataFile(str(copy), "PARQUET", 0, (), 1, copy.stat().st_size, key_metadata=b"k")
        commits.append(table.operations, [added])
    for use in uses(table)[: 6 if what == "manifest" else 2]:
        with pytest.raises(UnsupportedError, match="is encrypted"):
            use()
    if what == "data file":
        with pytest.raises(UnsupportedError, match="is encrypted"):
            table.rewrite(options={"rewrite-all": True})
        with pytest.raises(UnsupportedError, match="is encrypted"):
            table.write(pa.table({"id": [2]}), "overwrite")
    assert "is encrypted" in str(table.inspect().findings)
