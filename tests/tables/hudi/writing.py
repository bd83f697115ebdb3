"""Writes small Hudi tables file by file, so that a test says exactly what lies there: real Parquet, real log blocks,
real timeline files.

Rows are dicts with the key `id` and any of the columns `ts` (ordering), `x` (text), `n` (number). A file group is named
by a letter. Instants are small numbers, `t(3)` is the time of the third; a commit of table version 8 completes at its
own time + 1/2 unless said otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import lakebed
from lakebed.formats.hudi.codec.delete_rows import OrderingBranch
from lakebed.formats.hudi.codec.log import HeaderKey
from lakebed.testing.hudi_log import Delete, avro_data_block, delete_block, write_block
from lakebed.verbs.table import Table

META = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
COLUMNS = {"id": "string", "ts": "long", "x": "string", "n": "int"}
ARROW = {"string": pa.string(), "long": pa.int64(), "int": pa.int32(), "boolean": pa.bool_(), "double": pa.float64()}
Row = dict[str, Any]


def t(number: float) -> str:
    """The time of an instant: so many seconds after a midnight."""
    milliseconds = round(number * 1000)
    minutes, seconds = divmod(milliseconds // 1000, 60)
    return f"2026010100{minutes:02d}{seconds:02d}{milliseconds % 1000:03d}"


class HudiFolder:
    """A table being written."""

    def __init__(self, folder: Path, version: int = 6, columns: Mapping[str, str] = COLUMNS, **properties: str) -> None:
        self.folder, self.version, self.columns = folder, version, dict(columns)
        self.timeline = folder / ".hoodie" / ("timeline" if version >= 8 else ".")
        self.timeline.mkdir(parents=True, exist_ok=True)
        known = {
            "hoodie.table.name": "t",
            "hoodie.table.version": str(version),
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.timeline.layout.version": "2" if version >= 8 else "1",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.precombine.field": "ts",
            "hoodie.table.partition.fields": "",
            "hoodie.timeline.path": "timeline",
        }
        known |= (
            {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
            if version >= 8
            else {"hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}
        )
        known |= {f"hoodie.{key.replace('__', '.')}": value for key, value in properties.items()}
        self.properties(known)
        (folder / ".hoodie_partition_metadata").write_text("partitionDepth=0\n")

    def properties(self, known: Mapping[str, str]) -> None:
        text = "#written by a test\n" + "".join(f"{key}={value}\n" for key, value in known.items())
        (self.folder / ".hoodie" / "hoodie.properties").write_text(text)

    def open(self, **options: object) -> Table:
        return lakebed.open(self.folder, {key.replace("__", "."): value for key, value in options.items()})

    def schema(self, columns: Mapping[str, str] | None = None, meta: bool = False) -> str:
        fields = [{"name": name, "type": ["null", "string"], "default": None} for name in (META if meta else ())]
        fields += [
            {"name": name, "type": ["null", kind], "default": None} for name, kind in (columns or self.columns).items()
        ]
        return json.dumps({"type": "record", "name": "row", "fields": fields})

    def base(
        self,
        group: str,
        instant: float,
        rows: Iterable[Row],
        partition: str = "",
        token: str = "0-1-1",
        columns: Mapping[str, str] | None = None,
        meta: bool = True,
    ) -> str:
        """A base file; a row keeps a `_hoodie_commit_time` that it brings. Gives its path."""
        name = f"{group}-0_{token}_{t(instant)}.parquet"
        full = [self._with_meta(row, t(instant), partition, name) for row in rows] if meta else list(rows)
        kinds = {**(dict.fromkeys(META, "string") if meta else {}), **(columns or self.columns)}
        schema = pa.schema([pa.field(column, ARROW[kind]) for column, kind in kinds.items()])
        (self.folder / partition).mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(full, schema), self.folder / partition / name)
        return f"{partition}/{name}" if partition else name

    def data(
        self,
        instant: float,
        rows: Iterable[Row],
        partition: str = "",
        columns: Mapping[str, str] | None = None,
        headers: Mapping[HeaderKey, str] | None = None,
    ) -> bytes:
        """A data block."""
        kinds = columns or self.columns
        full = [{**dict.fromkeys(kinds), **self._with_meta(row, t(instant), partition, "log")} for row in rows]
        return avro_data_block(self.schema(kinds, meta=True), full, t(instant), headers=headers)

    def deletes(self, instant: float, keys: Mapping[str, int | None], partition: str = "") -> bytes:
        """A delete block: ordering values by key, None for the delete operation's natural order."""
        found = [
            Delete(key, partition) if ts is None else Delete(key, partition, OrderingBranch.LONG, ts)
            for key, ts in keys.items()
        ]
        return delete_block(found, t(instant))

    def log(
        self,
        group: str,
        instant: float,
        content: bytes,
        version: int = 1,
        partition: str = "",
        token: str = "0-1-1",
        cdc: bool = False,
    ) -> str:
        """A log file; `instant` is its slice's base instant, in table version 8 the delta commit. Gives its path."""
        name = f".{group}-0_{t(instant)}.log.{version}_{token}{'.cdc' if cdc else ''}"
        (self.folder / partition).mkdir(parents=True, exist_ok=True)
        (self.folder / partition / name).write_bytes(content)
        return f"{partition}/{name}" if partition else name

    def done(
        self,
        instant: float,
        paths: Sequence[str] = (),
        action: str = "deltacommit",
        completed: float | None = None,
        operation: str = "UPSERT",
        replaced: Mapping[str, Sequence[str]] = {},
        deletes: int = 0,
        inserts: int = 0,
        columns: Mapping[str, str] | None = None,
        previous: str = "null",
    ) -> None:
        """A completed commit that names these files."""
        stats: dict[str, list[dict[str, Any]]] = {}
        for path in paths:
            partition, _, name = path.rpartition("/")
            file_id = name.lstrip(".").partition("_")[0]
            stats.setdefault(partition, []).append(
                {
                    "fileId": file_id,
                    "path": path,
                    "prevCommit": previous,
                    "numWrites": 1,
                    "numDeletes": deletes,
                    "numInserts": inserts,
                    "fileSizeInBytes": (self.folder / path).stat().st_size,
                    "logFiles": [name] if name.startswith(".") else None,
                }
            )
        found = {
            "partitionToWriteStats": stats,
            "operationType": operation,
            "extraMetadata": {"schema": self.schema(columns)},
            "partitionToReplaceFileIds": {p: [f"{group}-0" for group in groups] for p, groups in replaced.items()},
        }
        time = t(instant)
        if self.version >= 8:
            time = f"{time}_{t(instant + 0.5 if completed is None else completed)}"
        (self.timeline / f"{time}.{action}").write_text(json.dumps(found))

    def state(self, instant: float, suffix: str, content: bytes = b"") -> None:
        """Another state file: `deltacommit.inflight`, `compaction.requested`, ..."""
        (self.timeline / f"{t(instant)}.{suffix}").write_bytes(content)

    def _with_meta(self, row: Row, instant: str, partition: str, name: str) -> Row:
        meta = {
            "_hoodie_commit_time": instant,
            "_hoodie_commit_seqno": f"{instant}_0_0",
            "_hoodie_record_key": row["id"],
            "_hoodie_partition_path": partition,
            "_hoodie_file_name": name,
        }
        return {**meta, **row}


def rows(table: Table, *columns: str, **read: Any) -> dict[str, Any]:
    """A snapshot by key: the value of a column, or a tuple of several."""
    return _by_key(table.read(["id", *columns], **read).read_all(), columns)


def changed(table: Table, *columns: str, **read: Any) -> dict[str, Any]:
    """Changes by key: "-D", or the value of a column. A key comes once."""
    found = table.changes(["id", *columns], **read).read_all()
    keys = found["id"].to_pylist()
    assert len(keys) == len(set(keys)), keys
    values = _by_key(found, columns)
    return {
        k: "-D" if kind == "-D" else values[k] for k, kind in zip(keys, found["_row_kind"].to_pylist(), strict=True)
    }


def _by_key(found: pa.Table, columns: Sequence[str]) -> dict[str, Any]:
    lists = [found[name].to_pylist() for name in columns]
    values = lists[0] if len(columns) == 1 else list(zip(*lists, strict=True))
    keys = found["id"].to_pylist()
    assert len(keys) == len(set(keys)), keys
    return dict(zip(keys, values, strict=True))


def foreign_block(kind: int, instant: float) -> bytes:
    """A whole block of a kind that data tables do not hold."""
    return write_block(kind, {HeaderKey.INSTANT_TIME: t(instant), HeaderKey.SCHEMA: "{}"}, b"DATABLK*")
