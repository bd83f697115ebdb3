"""The rows of a compaction: files of one bucket merged into new ones of a level, a batch of each sorted run at a time.

Rules: Paimon's MergeTreeCompactRewriter and ChangelogMergeTreeRewriter. Where the older rows of a key are needed, the
files of higher levels that may have them are read along as further sorted runs: one pass over them in key order, in
place of Paimon's look-ups key by key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from lakebed.formats.paimon.codec.binary_row import decode_row, without_arity
from lakebed.formats.paimon.codec.file_schema import KIND_FIELD, SEQUENCE_FIELD
from lakebed.formats.paimon.codec.manifest import SOURCE_APPEND, SOURCE_COMPACT, DataFileMeta
from lakebed.formats.paimon.layout import NameFactory
from lakebed.formats.paimon.merge import merge_function
from lakebed.formats.paimon.merge.lookup import kept_runs
from lakebed.formats.paimon.merge.sorted_runs import merge_sorted, oldest_first
from lakebed.formats.paimon.read.files import read_batches
from lakebed.formats.paimon.rewrite.few_runs import Run, few_runs, held_bytes
from lakebed.formats.paimon.rewrite.record_expiry import RecordExpiry
from lakebed.formats.paimon.rewrite.row_changes import Folding, Merged, Versions, without_deletes
from lakebed.formats.paimon.rewrite.unit import Action, CompactionRules, CompactionUnit
from lakebed.formats.paimon.rewrite.vectors import BucketVectors
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.write.bucket import BucketFiles, run_schema
from lakebed.kernel.arrays import from_numpy, to_numpy

_FILE, _AT = "_FILE", "_AT"
"""Columns that say where a row comes from: the number of its file, and its position there."""
_ORIGIN = [pa.field(_FILE, pa.int32()), pa.field(_AT, pa.int64())]

KeyRange = tuple[tuple[Any, ...], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Written:
    """What a rewrite wrote: data files of the output level, and changelog files."""

    files: tuple[DataFileMeta, ...]
    changelog: tuple[DataFileMeta, ...]


@dataclass(frozen=True, slots=True)
class MergeTree:
    """Rewrites files of one bucket. `vectors` are the bucket's deletion vectors, which a rewrite adds to."""

    history: History
    rules: CompactionRules
    expiry: RecordExpiry | None
    folder: str
    vectors: BucketVectors

    def rewrite(self, unit: CompactionUnit, action: Action, names: NameFactory) -> Written:
        """Do one action. What it wrote is removed when it fails."""
        rules, options = self.rules, self.rules.options.at_level(unit.output_level)
        files = BucketFiles(self.history.store, rules.schema, options)
        has_changelog = action.notes_changes and (rules.full_changelog or rules.lookup.changelog)
        data = files.writer(self.folder, names, gathers=True)
        changes = files.writer(self.folder, names, changelog=True, gathers=True)
        try:
            for merged in self._merged(unit, action, files):
                if action.rewrites:
                    data.write(files.file_table(without_deletes(merged.rows) if action.drops_deletes else merged.rows))
                if has_changelog and merged.changelog is not None:
                    changes.write(files.file_table(merged.changelog))
            written, changelog = files.metas(data.close()), files.metas(changes.close(), changelog=True)
        except BaseException:
            self.history.store.delete_many([*data.abort(), *changes.abort()])
            raise
        level = unit.output_level
        return Written(
            tuple(replace(file, level=level, file_source=SOURCE_COMPACT) for file in written),
            tuple(replace(file, level=level, file_source=SOURCE_APPEND) for file in changelog),
        )

    def _merged(self, unit: CompactionUnit, action: Action, files: BucketFiles) -> Iterator[Merged]:
        """The merged rows of an action, in key order."""
        rules = self.rules
        with_older = action.notes_changes and not rules.full_changelog
        members = [*(self._overlapped(unit, action) if with_older else ()), *action.files]
        folding = Folding.of(rules, merge_function(rules.schema, rules.options.table))
        levels = np.array([file.level for file in members], np.int8)
        columns = run_schema(rules.schema).names
        short = frozenset[str]()
        if with_older and not rules.needs_older_values:
            short = frozenset(file.file_name for file in members if file.level > unit.output_level)
        winners_only = folding.keeps_last and not action.notes_changes
        schema = pa.schema([*run_schema(rules.schema), *(() if winners_only else _ORIGIN)])
        all_runs = few_runs(self._runs(members, short, schema), files.joined, schema, rules.options.spill.folder)
        for piece in merge_sorted(all_runs, rules.schema.trimmed_primary_keys):
            order, runs = files.piece_order(piece)
            if winners_only:  # they are known before any value is fetched
                yield Merged(piece.take(from_numpy(order[runs.last])))
                continue
            if with_older:  # keys of older files alone stay as they are
                in_unit = levels[to_numpy(piece.column(_FILE))[order]] <= unit.output_level
                lengths = runs.ends - runs.starts
                wanted = np.repeat(np.logical_or.reduceat(in_unit, runs.starts), lengths)
                order, runs = order[wanted], kept_runs(wanted, runs)[1]
                if not len(order):
                    continue
            piece = piece.take(from_numpy(order)).combine_chunks()
            numbers = to_numpy(piece.column(_FILE))
            versions = Versions(piece.select(columns), runs, levels[numbers], unit.output_level)
            if not with_older:
                full = action.notes_changes
                yield folding.with_full_changelog(versions, unit.top) if full else folding.plain(versions)
                continue
            merged = folding.with_older(versions)
            if rules.lookup.vectors and merged.replaced is not None and len(merged.replaced):
                self._delete(members, numbers[merged.replaced], to_numpy(piece.column(_AT))[merged.replaced])
            yield merged

    def _delete(self, members: Sequence[DataFileMeta], numbers: Any, positions: Any) -> None:
        """Mark replaced rows of older files as deleted."""
        for number in np.flatnonzero(np.bincount(numbers)).tolist():
            self.vectors.delete(members[number], positions[numbers == number])

    def _overlapped(self, unit: CompactionUnit, action: Action) -> list[DataFileMeta]:
        """The older files that may have a key of the action's files."""
        ranges = [self._range(file) for file in action.files if file.level == 0]
        if any(_has_nan(low) or _has_nan(high) for low, high in ranges):
            return list(unit.older)
        older = [file for file in unit.older if file.level > unit.output_level]
        return [
            file
            for file in older
            if any(
                low <= high_here and low_here <= high
                for low, high in [self._range(file)]
                for low_here, high_here in ranges
            )
        ]

    def _range(self, file: DataFileMeta) -> KeyRange:
        types = [field.type for field in self.rules.schema.project(self.rules.schema.trimmed_primary_keys)]
        return decode_row(without_arity(file.min_key), types), decode_row(without_arity(file.max_key), types)

    def _runs(self, members: Sequence[DataFileMeta], short: Collection[str], schema: pa.Schema) -> list[Run]:
        """The rows of files as sorted runs, the oldest first: of rows that are equal in every order, the last one
        is the newest. Of the files named in `short` only the keys are read."""
        ranges = [self._range(file) for file in members]
        places = {file.file_name: number for number, file in enumerate(members)}
        ordered = [places[file.file_name] for file in oldest_first(members)]
        chains: list[tuple[int, list[int]]] = []
        for level in dict.fromkeys(members[number].level for number in ordered):
            of_level = [number for number in ordered if members[number].level == level]
            if level == 0 or any(_has_nan(value) for number in of_level for value in ranges[number]):
                chains += [(level, [number]) for number in of_level]
            else:
                chains.append((level, sorted(of_level, key=lambda number: ranges[number][0])))
        return [
            (held_bytes([members[number] for number in numbers]), self._chain(members, numbers, short, schema))
            for _, numbers in chains
        ]

    def _chain(
        self, members: Sequence[DataFileMeta], numbers: Sequence[int], short: Collection[str], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        for number in numbers:
            yield from self._batches(members[number], number, members[number].file_name in short, schema)

    def _batches(
        self, file: DataFileMeta, number: int, short: bool, run_columns: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a file that are neither deleted nor expired, with where they come from if `run_columns` has that.
        `short`: nulls for all columns that neither the key nor the expiry needs."""
        schema, start, deleted = self.rules.schema, 0, self.vectors.of(file)
        written = self.history.schema(file.schema_id)
        system = (SEQUENCE_FIELD, KIND_FIELD)
        path = f"{self.folder}/{file.file_name}"
        fields = schema.fields
        if short:
            read = {*schema.trimmed_primary_keys, *((self.expiry.field.name,) if self.expiry else ())}
            fields = tuple(field for field in fields if field.name in read)
        for batch in read_batches(self.history.store, path, written, fields, system, file.stated):
            positions = np.arange(start, start + len(batch))
            start += len(batch)
            read_columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            if _FILE in run_columns.names:
                read_columns[_FILE] = from_numpy(np.full(len(batch), number, np.int32))
                read_columns[_AT] = from_numpy(positions)
            columns = [
                read_columns[field.name] if field.name in read_columns else pa.nulls(len(batch), field.type)
                for field in run_columns
            ]
            rows = pa.RecordBatch.from_arrays(columns, schema=run_columns)
            kept = np.ones(len(batch), np.bool_)
            if deleted is not None:
                kept[
                    deleted[np.searchsorted(deleted, positions[0]) : np.searchsorted(deleted, start)] - positions[0]
                ] = False
            if self.expiry is not None:
                kept &= self.expiry.kept(batch.column(self.expiry.field.name))
            yield rows if kept.all() else rows.filter(from_numpy(kept))


def _has_nan(values: Sequence[Any]) -> bool:
    return any(value != value for value in values)
