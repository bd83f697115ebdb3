"""The change log of a base file that a write rewrites: what happened to each row, in a `.cdc` log file beside it.

A new file group, a replaced one and a log file need none: readers derive their changes. A base file whose rows did not
change gets a log without rows, since readers ask for one beside each base file that is not all inserts.

Rules: Hudi's `HoodieCDCLogger`, `HoodieCDCUtils` (the schemas), `HoodieMergeHandleWithChangeLog` (which rows).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.codec.avro_rows import framed_rows
from lakebed.formats.hudi.codec.cdc import CdcMode
from lakebed.formats.hudi.codec.log import BlockKind, HeaderKey
from lakebed.formats.hudi.codec.log_write import run_content, write_block
from lakebed.formats.hudi.codec.null_first import null_first
from lakebed.formats.hudi.layout import RECORD_KEY, file_path
from lakebed.formats.hudi.merge.base_rows import BaseMerge
from lakebed.formats.hudi.merge.log import MergedLog
from lakebed.formats.hudi.read.task import MergedSlice
from lakebed.formats.hudi.write.files import FileTarget
from lakebed.kernel.arrays import from_numpy, one_chunk, to_numpy

_MODE = "hoodie.table.cdc.supplemental.logging.mode"
_TEXT = ["null", "string"]


@dataclass
class WatchedSlice(MergedSlice):
    """A merged slice that keeps the base rows which the log replaces or deletes, and the rows that the log brings."""

    hidden: list[pa.RecordBatch] = field(default_factory=list)
    new: list[pa.RecordBatch] = field(default_factory=list)

    def _merge(self, batch: pa.RecordBatch, merge: BaseMerge, merged: MergedLog) -> Iterator[pa.RecordBatch]:
        if not merge.keep.all():
            self.hidden.append(batch.filter(from_numpy(~merge.keep)))
        return super()._merge(batch, merge, merged)

    def _of_log(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            self.new.append(batch)
            yield batch


def watched(rows: MergedSlice) -> WatchedSlice:
    """The merged rows, wrapped so that changes are noted while they are written."""
    return WatchedSlice(**{part.name: getattr(rows, part.name) for part in fields(rows)})


class ChangeLog:
    """Collects what a new base file changes, and writes it. `slice_rows` are the rows that are merged into it, which
    have all been read by then."""

    def __init__(self, target: FileTarget, partition: str, file_id: str, token: str, slice_rows: WatchedSlice | None):
        self._target, self._token, self._slice_rows = target, token, slice_rows
        self._partition, self._file_id = partition, file_id
        self._new: list[pa.RecordBatch | pa.Table] = []

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Rows that this write puts into the base file."""
        self._new.append(rows)

    def write(self) -> dict[str, int]:
        """Write the file; its path and size."""
        target = self._target
        schema = cdc_schema(null_first(target.avro), _mode(target))
        headers = {HeaderKey.INSTANT_TIME: target.instant, HeaderKey.SCHEMA: schema}
        name = f".{self._file_id}_{target.instant}.log.1_{self._token}.cdc"
        path = file_path(self._partition, name)
        target.markers(path, "CREATE")
        size = 0
        with target.store.open_output(path) as sink:
            for batch in self._pieces():
                block = write_block(
                    BlockKind.CDC_DATA, headers, run_content([(len(batch), framed_rows(batch, schema))])
                )
                sink.write(block)
                size += len(block)
        return {path: size}

    def _pieces(self) -> list[pa.RecordBatch]:
        rows = self._rows()
        step = max(1, len(rows) * self._target.options.block_bytes // max(1, rows.nbytes))
        return [rows.slice(start, step) for start in range(0, max(1, len(rows)), step)]

    def _rows(self) -> pa.RecordBatch:
        """The changes: updates and deletes in the order of the base file, then inserts."""
        merged = self._slice_rows
        hidden, new_rows = (merged.hidden, merged.new) if merged is not None else ([], [])
        before, after = self._together(hidden), self._together([*new_rows, *self._new])
        old, new = one_chunk(before.column(RECORD_KEY)), one_chunk(after.column(RECORD_KEY))
        places = to_numpy(pc.fill_null(pc.index_in(old, value_set=new), -1)).astype(np.int64)
        firsts = np.zeros(len(old), bool)
        firsts[np.unique(places, return_index=True)[1]] = True
        places[~firsts] = -1  # of several rows of a key, one is updated and the others go
        added = np.setdiff1d(np.arange(len(new)), places)
        nothing = np.full(len(added), -1, np.int64)
        at = {"before": np.concatenate([np.arange(len(old)), nothing]), "after": np.concatenate([places, added])}
        ops = np.where(at["before"] < 0, "i", np.where(at["after"] < 0, "d", "u"))
        keys = pc.coalesce(_taken(old, at["before"]), _taken(new, at["after"]))
        images = {
            name: _taken(_struct(table, self._target.schema), at[name])
            for name, table in (("before", before), ("after", after))
        }
        return pa.RecordBatch.from_pydict(
            {
                "op": pa.array(ops, pa.string()),
                "ts_ms": pa.repeat(pa.scalar(self._target.instant), len(ops)),
                "record_key": keys,
                **images,
            }
        )

    def _together(self, parts: Sequence[pa.RecordBatch | pa.Table]) -> pa.Table:
        schema = pa.schema([pa.field(RECORD_KEY, pa.string()), *self._target.schema])
        tables = [
            pa.table(
                [
                    part.column(f.name) if f.name in part.schema.names else pa.nulls(part.num_rows, f.type)
                    for f in schema
                ],
                schema=schema,
            )
            for part in parts
        ]
        return pa.concat_tables(tables).combine_chunks() if tables else schema.empty_table()


def cdc_schema(avro: str, mode: CdcMode) -> str:
    """The Avro schema of change logs of a table whose own columns have the schema `avro`."""
    if mode is CdcMode.OP_KEY_ONLY:
        named = [{"name": name, "type": _TEXT} for name in ("op", "record_key")]
        return json.dumps({"type": "record", "name": "Record", "fields": named}, separators=(",", ":"))
    table: dict[str, Any] = json.loads(avro)
    space = table.get("namespace", "")
    reference = f"{space}.{table['name']}" if space and "." not in table["name"] else table["name"]
    kinds: dict[str, Any] = {"op": _TEXT, "ts_ms": _TEXT, "before": ["null", table], "after": ["null", reference]}
    if mode is CdcMode.DATA_BEFORE:
        kinds = {"op": _TEXT, "record_key": _TEXT, "before": ["null", table]}
    record = {
        "type": "record",
        "name": "CDC",
        **({"namespace": space} if space else {}),
        "fields": [{"name": name, "type": kind, "doc": "", "default": None} for name, kind in kinds.items()],
    }
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def _mode(target: FileTarget) -> CdcMode:
    properties: Mapping[str, str] = target.config.properties
    return CdcMode(properties.get(_MODE, CdcMode.DATA_BEFORE_AFTER.value).lower())


def _struct(table: pa.Table, schema: pa.Schema) -> pa.Array:
    return pa.StructArray.from_arrays(
        [one_chunk(table.column(field.name)) for field in schema],
        fields=[field.with_nullable(True) for field in schema],
    )


def _taken(values: pa.Array, at: Any) -> pa.Array:
    return values.take(pa.array(at, pa.int64(), mask=at < 0))
