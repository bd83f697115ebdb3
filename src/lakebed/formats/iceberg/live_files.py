"""Sums over the live files of a table: counts, sizes, kinds of deletes, and the same per partition."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.arrays import one_chunk

COLUMNS = (
    "partition", "spec_id", "content", "file_format", "record_count", "file_size_in_bytes", "sequence_number",
)  # fmt: skip
"""The columns of entries that the sums need."""


@dataclass(slots=True)
class LiveFiles:
    """Sums over entries, whole columns at a time. Python handles each partition once per table of entries."""

    count: int = 0
    size: int = 0
    records: int = 0
    positions: int = 0
    kinds: dict[str, int] = field(default_factory=lambda: {"position": 0, "vector": 0, "equality": 0})
    partitions: set[object] = field(default_factory=set)
    small_by_partition: dict[object, int] = field(default_factory=dict)
    exponents: Counter[int] = field(default_factory=Counter)
    """The files by the power of two below their sizes."""
    bytes_by_place: Counter[str] = field(default_factory=Counter)
    files_by_place: Counter[str] = field(default_factory=Counter)
    records_by_sequence: Counter[int] = field(default_factory=Counter)
    """The records by the sequence number of their files."""

    def add(self, entries: pa.Table, small: int) -> None:
        """Add entries of one spec. Files of fewer than `small` bytes count as small."""
        if not len(entries):
            return
        sizes = entries["file_size_in_bytes"].to_numpy()
        self.count += len(entries)
        self.size += int(sizes.sum())
        self.records += int(pc.sum(entries["record_count"]).as_py())
        self._kinds(entries)
        self.exponents.update(dict(enumerate(np.bincount(np.frexp(np.maximum(sizes, 1))[1] - 1).tolist())))
        sequences = entries.select(["sequence_number", "record_count"]).group_by("sequence_number")
        counted = sequences.aggregate([("record_count", "sum")])
        self.records_by_sequence.update(dict(zip(*(column.to_pylist() for column in counted.columns), strict=True)))
        spec_id = entries["spec_id"][0].as_py()
        keys = [f"k{n}" for n in range(entries.schema.field("partition").type.num_fields)]
        parts = one_chunk(entries["partition"]).flatten() if keys else []
        names = [field.name for field in entries.schema.field("partition").type] if keys else []
        sums = {"small": (sizes < small).astype(np.int64), "size": sizes, "one": np.ones(len(sizes), np.int64)}
        table = pa.table({**dict(zip(keys, parts, strict=True)), **sums})
        grouped = table.group_by(keys).aggregate([(name, "sum") for name in sums])
        counts = (grouped[name].to_pylist() for name in (*keys, *(f"{name}_sum" for name in sums)))
        for *place, few, size, files in zip(*counts, strict=True):
            key = (spec_id, *map(str, place))
            self.partitions.add(key)
            name = "/".join(f"{field}={value}" for field, value in zip(names, place, strict=True)) or "the table"
            self.bytes_by_place[name] += size
            self.files_by_place[name] += files
            if few:
                self.small_by_partition[key] = self.small_by_partition.get(key, 0) + few

    def _kinds(self, entries: pa.Table) -> None:
        content = entries["content"].to_numpy()
        vector = pc.equal(entries["file_format"], "PUFFIN").to_numpy()
        self.kinds["position"] += int(((content == 1) & ~vector).sum())
        self.kinds["vector"] += int(vector.sum())
        self.kinds["equality"] += int((content == 2).sum())
        self.positions += int(entries["record_count"].to_numpy()[content == 1].sum())
