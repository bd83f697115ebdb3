"""Tables with `data-evolution.enabled`, whose files hold some columns of rows, and files of large values."""

import dataclasses
import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import lakebed
from lakebed.formats.paimon.codec.binary_row import EMPTY_ROW, with_arity
from lakebed.formats.paimon.codec.file_schema import file_fields, file_schema
from lakebed.formats.paimon.codec.manifest import DataFileMeta, SimpleStats
from lakebed.formats.paimon.commit.committer import Committer
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.commit.options import CommitOptions
from lakebed.formats.paimon.options import table_options
from lakebed.formats.paimon.snapshot import History
from lakebed.model.commit import BATCH_IDENTIFIER

EVOLVES = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
_NO_ROW = with_arity(EMPTY_ROW, 0)


def evolving(folder: Path, schema: pa.Schema, large: Sequence[str] = (), **options: str) -> lakebed.Table:
    """A new table. The columns `large`, which are binary, become large values."""
    lakebed.create(folder, "paimon", schema, options={**EVOLVES, **options})
    path = folder / "schema" / "schema-0"
    value = json.loads(path.read_text())
    for field in value["fields"]:
        if field["name"] in large:
            field["type"] = "BLOB"
    path.write_text(json.dumps(value))
    return lakebed.open(folder)


def put(table: lakebed.Table, *files: tuple[int | None, pa.Table | list[bytes | int | None], str]) -> None:
    """Commit files, each as its first row id (None: the next), its columns, and a name that ends in `.parquet` or
    `.blob`. A file of large values is a list (see `blob_file`) of the column `pic`."""
    history = History(table.store)
    schema = history.latest_schema()
    metas = []
    for first, rows, name in files:
        if isinstance(rows, list):
            data, columns = blob_file(rows), ("pic",)
        else:
            columns = tuple(rows.column_names)
            types = {field.name: field for field in file_schema(file_fields(schema))}
            own = pa.schema([types[column] for column in columns])
            sink = pa.BufferOutputStream()
            pq.write_table(rows.cast(own), sink, store_schema=False)
            data = sink.getvalue().to_pybytes()
        table.store.write(f"bucket-0/{name}", data)
        stats = SimpleStats(_NO_ROW, _NO_ROW, ())
        meta = DataFileMeta(name, len(data), len(rows), _NO_ROW, _NO_ROW, stats, stats, 0, 0, schema.id, 0)
        whole = set(columns) == set(schema.names)
        metas.append(
            dataclasses.replace(meta, first_row_id=first, file_source=0, value_stats_cols=(),
                            write_cols=None if whole else columns)
        )  # fmt: skip
    message = PaimonMessage(_NO_ROW, 0, -1, "bucket-0", tuple(metas))
    committer = Committer(history, schema, table_options(schema.options), CommitOptions("test"))
    committer.commit(BATCH_IDENTIFIER, [message])


def blob_file(values: Sequence[bytes | int | None]) -> bytes:
    """A file of large values. The number -2 is a value that an older file has."""
    data, lengths = b"", []
    for value in values:
        if value is None or isinstance(value, int):
            lengths.append(-1 if value is None else value)
            continue
        record = struct.pack("<i", 1481511375) + value
        record += struct.pack("<qI", len(record) + 12, zlib.crc32(record))
        data += record
        lengths.append(len(record))
    index = bytearray()
    for length, before in zip(lengths, [0, *lengths], strict=False):
        coded = (length - before) * 2 if length >= before else (before - length) * 2 - 1
        while coded >= 0x80:
            index.append(coded & 0x7F | 0x80)
            coded >>= 7
        index.append(coded)
    return data + bytes(index) + struct.pack("<iB", len(index), 1)
