"""Files added to a table as they are, in one append: the reference engine's procedure `add_files`.

Partition values come from paths, else from a file's own metrics where they leave only one value (as pyiceberg has it).
A table without a name mapping gets one with the commit, for files without field ids. No file is moved, copied or
changed: from then on they are the table's, and its upkeep removes them when no snapshot needs them any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionField
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import DoubleType, FloatType

from lakebed.errors import SchemaError, UsageError
from lakebed.formats.iceberg.add_files import options as opt
from lakebed.formats.iceberg.add_files.footer import FileFacts, FooterReader
from lakebed.formats.iceberg.add_files.paths import Candidate, candidates, path_values, typed
from lakebed.formats.iceberg.catalog.operations import TableOperations, refuse_writing
from lakebed.formats.iceberg.codec.bounds import decoded_bounds
from lakebed.formats.iceberg.codec.metadata import Document, TableMetadata
from lakebed.formats.iceberg.codec.name_mapping import NameMapping
from lakebed.formats.iceberg.codec.partition_type import partition_type
from lakebed.formats.iceberg.codec.transforms import transformed
from lakebed.formats.iceberg.codec.updates import TableUpdate
from lakebed.formats.iceberg.commit.attempt import Attempt
from lakebed.formats.iceberg.commit.kinds import Append
from lakebed.formats.iceberg.commit.loop import Produced, commit_snapshot
from lakebed.formats.iceberg.commit.options import CommitOptions
from lakebed.formats.iceberg.data_files import DataFile, partition_key
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.layout import partition_path
from lakebed.formats.iceberg.manifests import iter_entries, manifests_of
from lakebed.formats.iceberg.read.context import NAME_MAPPING
from lakebed.formats.iceberg.write.statistics.leaves import leaves_of
from lakebed.formats.iceberg.write.statistics.modes import metrics_modes
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.model.upkeep import AddedPartition, AddFilesResult

_PER_TASK = 64


def add_files(
    operations: TableOperations, branch: str, paths: Sequence[str], options: Mapping[str, object], dry_run: bool,
    engine: Engine | None,
) -> AddFilesResult:  # fmt: skip
    """Add files, or all files of folders, by location.

    UsageError for files that are there already, SchemaError for files that do not fit, UnsupportedError for a location
    that the table may not touch, CommitConflictError, CommitUnknownError.
    """
    given = opt.parsed(options)
    loaded = operations.load()
    refuse_writing(operations, loaded)
    metadata = loaded.metadata
    named = candidates(operations.files, paths, given)
    reader = footer_reader(operations.files, metadata)
    work = engine or LocalEngine(operations.files.at_once if operations.files.at_once > 1 else None)
    facts = [each for of_task in work.map(reader, in_tasks(named)) for each in of_task]
    placed = Placing.of(metadata)
    added = tuple(placed.data_file(file, fact) for file, fact in zip(named, facts, strict=True))
    append = _AddOnce(Append(added), given[opt.CHECK_DUPLICATES])
    result = AddFilesResult(len(added), sum(file.record_count for file in added), placed.partitions(added), dry_run)
    if dry_run:
        head = metadata.head(branch)
        manifests = manifests_of(operations.files, metadata, head) if head is not None else []
        for spec_id in {m.spec_id for m in manifests if m.content == 0 and m.has_live}:
            of_spec = [m for m in manifests if m.content == 0 and m.has_live and m.spec_id == spec_id]
            for entries in iter_entries(operations.files, metadata, of_spec, ("file_path",)):
                append.refuse_known(entries, metadata)
        return result
    maps = not all(fact.has_ids for fact in facts)

    def mapping(current: TableMetadata, snapshot: Document) -> Sequence[TableUpdate]:
        if not maps or NAME_MAPPING in current.properties:
            return ()
        return [{"action": "set-properties", "updates": {NAME_MAPPING: _new_mapping(current)}}]

    settings = CommitOptions(branch, properties=given.raw, also=mapping)
    committed = commit_snapshot(operations, append, settings, loaded)
    return AddFilesResult(result.files, result.rows, result.partitions, instants=(committed.instant,))


def in_tasks(files: Sequence[Candidate]) -> list[Sequence[Candidate]]:
    """The files in the pieces that tasks take."""
    return [files[start : start + _PER_TASK] for start in range(0, len(files), _PER_TASK)]


def footer_reader(files: Files, metadata: TableMetadata) -> FooterReader:
    """The reader of footers for a table with this metadata."""
    text = metadata.properties.get(NAME_MAPPING) or _new_mapping(metadata)
    leaves = leaves_of(metadata.schema.fields)
    modes = metrics_modes(leaves, metadata.properties)
    return FooterReader(files, metadata.schema, metadata.spec, NameMapping.of_table(text, metadata.location), modes)


def _new_mapping(metadata: TableMetadata) -> str:
    return str(metadata.schema.name_mapping.model_dump_json())


@dataclass(frozen=True, slots=True)
class _AddOnce:
    """An append that refuses files that the table has, in each attempt anew."""

    append: Append
    checks: bool

    def __call__(self, attempt: Attempt) -> Produced:
        for entries in attempt.entries(0, columns=("file_path",)) if self.checks else ():
            self.refuse_known(entries, attempt.metadata)
        return self.append(attempt)

    def refuse_known(self, entries: pa.Table, metadata: TableMetadata) -> None:
        """UsageError when entries have a file that is to be added."""
        if not self.checks:
            return
        wanted = pa.array([file.path for file in self.append.added], pa.string())
        known = entries["file_path"].filter(pc.is_in(entries["file_path"], value_set=wanted))
        if len(known):
            raise UsageError(
                f"{len(known)} of the files are in the table already",
                table=metadata.location,
                file=known[0].as_py(),
                todo=f"Leave them out; with {opt.CHECK_DUPLICATES.key}=false their rows come twice",
            )


@dataclass(frozen=True, slots=True)
class Placing:
    """The partition of each file, in the table's default spec."""

    metadata: TableMetadata
    kind: pa.StructType
    typed: dict[tuple[int, str | None], object] = field(default_factory=dict)
    """The values of texts in paths so far, by the number of the partition field."""

    @classmethod
    def of(cls, metadata: TableMetadata) -> Placing:
        """Into the default spec of a table."""
        return cls(metadata, partition_type(metadata, metadata.spec))

    def data_file(self, file: Candidate, facts: FileFacts) -> DataFile:
        """The data file of a candidate. SchemaError where nothing says in which partition it lies."""
        spec = self.metadata.spec
        in_path = path_values(file.path)
        partition = tuple(self._value(number, key, in_path, facts, file.path) for number, key in enumerate(spec.fields))
        return DataFile(
            file.path, file.format, spec.spec_id, partition, facts.rows, facts.size,
            split_offsets=facts.split_offsets, metrics=facts.metrics,
        )  # fmt: skip

    def partitions(self, added: Sequence[DataFile]) -> tuple[AddedPartition, ...]:
        """The added files and rows per partition, by path."""
        spec = self.metadata.spec
        sums: dict[object, AddedPartition] = {}
        for file in added:
            key = partition_key(file.partition)
            before = sums.get(key) or AddedPartition(partition_path(spec, file.partition), 0, 0, 0)
            sums[key] = AddedPartition(
                before.path, before.files + 1, before.rows + file.record_count, before.size + file.size
            )
        return tuple(sorted(sums.values(), key=lambda each: each.path))

    def _value(
        self, number: int, key: PartitionField, in_path: Mapping[str, str | None], facts: FileFacts, path: str
    ) -> object:
        if isinstance(key.transform, VoidTransform):
            return None
        column = self.metadata.schema.find_column_name(key.source_id) or key.name
        if isinstance(key.transform, IdentityTransform):
            for name in (key.name, column):
                if name in in_path:
                    text = in_path[name]
                    if (number, text) not in self.typed:
                        self.typed[number, text] = typed(text, self.kind.field(number).type, name, path)
                    value = self.typed[number, text]
                    self._agrees(key, value, facts, path)
                    return value
        low, high = self._extremes(key, facts)
        if low is None or low != high:
            why = "its path has no such folder" if isinstance(key.transform, IdentityTransform) else (
                f"only its metrics can tell {key.transform} of {column!r}"
            )  # fmt: skip
            raise SchemaError(
                f"nothing says in which partition of {key.name!r} a file lies", file=path,
                why=f"{why}, and they leave more than one value or none",
                todo="Write its rows with table.write, or add the file to a table that is partitioned otherwise",
            )  # fmt: skip
        return low

    def _extremes(self, key: PartitionField, facts: FileFacts) -> tuple[object, object]:
        """The partition values of the least and the greatest value of the source column; None where a value is null or
        nobody knows."""
        id = key.source_id
        metrics = facts.metrics
        low, high = metrics.lower_bounds.get(id), metrics.upper_bounds.get(id)
        if low is None or high is None or metrics.null_value_counts.get(id) != 0:
            return None, None
        if not key.transform.preserves_order and low != high:
            return None, None
        kind = self.metadata.schema.find_type(id)
        if isinstance(kind, FloatType | DoubleType):  # NaN may be among the values, and a footer does not say so
            return None, None
        values = decoded_bounds(pa.array([low, high], pa.binary()), kind)
        if values is None:
            return None, None
        first, last = transformed(key.transform, values, kind).to_pylist()
        return first, last

    def _agrees(self, key: PartitionField, value: object, facts: FileFacts, path: str) -> None:
        """SchemaError where a file has the column itself, and with another value than its path."""
        low, high = facts.metrics.lower_bounds.get(key.source_id), facts.metrics.upper_bounds.get(key.source_id)
        if low is None or high is None:
            return
        first, last = self._extremes(key, facts)
        if first is not None and (first != value or last != value):
            raise SchemaError(
                f"the path of a file says {key.name}={value}, and its rows are from {first} to {last}", file=path,
                todo="Readers would see the value of the path. Move the file to its folder, or write its rows",
            )  # fmt: skip
