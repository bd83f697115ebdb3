"""Lays a golden Iceberg table in another folder: its metadata holds absolute locations, and all of them are rewritten.

The tables were written below `/tmp/golden/iceberg`. What names a location: metadata JSON, manifest lists, manifests
(paths and the bounds of `file_path`), position delete files, and the footers of Puffin files with deletion vectors.
Sizes that change with them (of delete files in manifests, of manifests in manifest lists) are set right. Avro files are
rewritten record by record with their own schema and header, so that no field is lost. Beside the table a SQLite catalog
`catalog.db` (catalog `ice`, namespace `db`) is made, of the layout that Iceberg's JdbcCatalog (V1) and pyiceberg share.
"""

import io
import json
import sqlite3
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq

WRITTEN_AT = "/tmp/golden/iceberg"
_PUFFIN = b"PFA1"
_FILE_PATH_ID = 2147483546


def place(table: Path) -> None:
    """Rewrites the locations in the unpacked folder `table`, in place, and makes the catalog beside it."""
    locations = [
        (f"{WRITTEN_AT}/hadoop/db/{table.name}", str(table)),
        (f"{WRITTEN_AT}/db/{table.name}", str(table)),
        (f"{WRITTEN_AT}/raw", str(table.with_name("raw"))),
    ]

    def moved(text: str) -> str:
        for old, new in locations:
            text = text.replace(old, new)
        return text

    manifests = [path for path in (table / "metadata").glob("*.avro") if not path.name.startswith("snap-")]
    deletes = {path for manifest in manifests for path in _delete_files(manifest, moved)}
    for path in sorted(deletes):
        _move_deletes(path, moved)
    for path in manifests:
        _rewrite_avro(path, lambda record: _move_entry(record, moved), moved)
    for path in (table / "metadata").glob("snap-*.avro"):
        _rewrite_avro(path, lambda record: _move_manifest(record, moved), moved)
    for path in (table / "metadata").glob("*.metadata.json"):
        path.write_text(moved(path.read_text(encoding="utf-8")), encoding="utf-8")
    _make_catalog(table)


def _delete_files(manifest: Path, moved: Any) -> list[Path]:
    with manifest.open("rb") as source:
        entries: list[Any] = list(fastavro.reader(source))
    found = (e["data_file"]["file_path"] for e in entries if e["data_file"].get("content") == 1)
    return [path for path in (Path(moved(name)) for name in found) if path.exists()]


def _move_deletes(path: Path, moved: Any) -> None:
    kind = path.suffix
    if kind == ".puffin":
        _move_puffin(path, moved)
    elif kind == ".avro":
        _rewrite_avro(path, lambda record: record | {"file_path": moved(record["file_path"])}, lambda text: text)
    else:
        table = pq.read_table(path) if kind == ".parquet" else orc.read_table(path)
        place = table.schema.get_field_index("file_path")
        texts = pc.cast(table.column(place), "string").to_pylist()
        column = pc.cast(pc.cast([moved(text) for text in texts], "string"), table.schema.field(place).type)
        table = table.set_column(place, table.schema.field(place), column)
        if kind == ".parquet":
            pq.write_table(table, path, compression="zstd", store_schema=False)
        else:
            orc.write_table(table, path)


def _move_puffin(path: Path, moved: Any) -> None:
    data = path.read_bytes()
    size = int.from_bytes(data[-12:-8], "little")
    payload = moved(data[-12 - size : -12].decode()).encode()
    path.write_bytes(data[: -12 - size] + payload + len(payload).to_bytes(4, "little") + data[-8:-4] + _PUFFIN)


def _move_entry(record: dict[str, Any], moved: Any) -> dict[str, Any]:
    file = record["data_file"]
    file["file_path"] = moved(file["file_path"])
    if file.get("referenced_data_file"):
        file["referenced_data_file"] = moved(file["referenced_data_file"])
    if file.get("content") == 1:
        for bounds in ("lower_bounds", "upper_bounds"):
            for pair in file.get(bounds) or ():
                if pair["key"] == _FILE_PATH_ID:
                    pair["value"] = moved(pair["value"].decode()).encode()
        if Path(file["file_path"]).exists():
            file["file_size_in_bytes"] = Path(file["file_path"]).stat().st_size
    return record


def _move_manifest(record: dict[str, Any], moved: Any) -> dict[str, Any]:
    record["manifest_path"] = moved(record["manifest_path"])
    if Path(record["manifest_path"]).exists():
        record["manifest_length"] = Path(record["manifest_path"]).stat().st_size
    return record


def _rewrite_avro(path: Path, change: Any, moved: Any) -> None:
    with path.open("rb") as source:
        reader = fastavro.reader(source)
        records: list[Any] = list(reader)
        header: dict[str, str] = dict(reader.metadata)
    schema = json.loads(header.pop("avro.schema"))
    codec = header.pop("avro.codec", "null")
    out = io.BytesIO()
    fastavro.writer(
        out, fastavro.parse_schema(schema), [change(record) for record in records], codec=codec,
        metadata={key: moved(value) for key, value in header.items()},
    )  # fmt: skip
    path.write_bytes(out.getvalue())


def _make_catalog(table: Path) -> None:
    meta = json.loads((table.with_name(f"{table.name}.expected") / "meta.json").read_text(encoding="utf-8"))
    current = table / meta["metadata_file"]
    with sqlite3.connect(table.with_name("catalog.db")) as database:
        database.execute(
            "CREATE TABLE IF NOT EXISTS iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace "
            "VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), "
            "previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5), "
            "PRIMARY KEY (catalog_name, table_namespace, table_name))"
        )
        database.execute(
            "CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, namespace "
            "VARCHAR(255) NOT NULL, property_key VARCHAR(255), property_value VARCHAR(1000), "
            "PRIMARY KEY (catalog_name, namespace, property_key))"
        )
        database.execute(
            "INSERT OR REPLACE INTO iceberg_tables VALUES ('ice', 'db', ?, ?, NULL, 'TABLE')",
            (table.name, str(current)),
        )
        database.execute("INSERT OR REPLACE INTO iceberg_namespace_properties VALUES ('ice', 'db', 'exists', 'true')")
    database.close()
