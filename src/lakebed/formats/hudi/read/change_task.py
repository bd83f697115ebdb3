"""One split of net changes: the rows of the range as +I, then the deletes as -D."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.codec.record_keys import KeyForm, row_keys
from lakebed.formats.hudi.codec.timestamps import bare_unit
from lakebed.formats.hudi.layout import COMMIT_TIME, PARTITION_PATH, RECORD_KEY
from lakebed.formats.hudi.merge.log import MergedLog
from lakebed.formats.hudi.read.split import HudiSplit
from lakebed.formats.hudi.read.task import SliceReader
from lakebed.kernel.predicates.tree import Call, Column, Literal, Node, all_of
from lakebed.kernel.predicates.where import keep
from lakebed.model.rowkind import ROW_KIND_COLUMN, RowKind


@dataclass(frozen=True, slots=True)
class ChangesTask:
    """Reads one split of changes.

    `schema` is that of the batches, row kind last. `decoded` are the columns asked for and those of the predicate.
    `commits` are the instants of the range, None for all. `record_keys` are the key generator's fields: deletes get
    their values from the text of the record key, which has the form `key_form`.
    """

    reader: SliceReader
    schema: pa.Schema
    decoded: tuple[str, ...]
    predicate: Node | None
    commits: frozenset[str] | None
    record_keys: tuple[str, ...]
    key_form: KeyForm

    def __call__(self, split: HudiSplit) -> Iterator[pa.RecordBatch]:
        """The split's rows as +I, then its deletes as -D."""
        with split.fetched_ahead(self.reader.store):
            yield from self._changes(split)

    def _changes(self, split: HudiSplit) -> Iterator[pa.RecordBatch]:
        comparing = bool(split.before) or len(split.slices) > 1
        hiding = [self.reader.merged_log(paths) for paths in split.hiding]
        keyed = comparing or len(hiding) > 0
        alive: list[pa.Array] = []
        deletes: list[pa.RecordBatch] = []
        for paths in split.slices:
            narrow = None if keyed else self._narrow()
            opened = self.reader.open(paths, self._columns(keyed), narrow=narrow, instants=self.commits)
            for batch in opened.rows():
                if comparing:
                    alive += row_keys(batch, self.reader.keys).chunks
                yield from self._out(self._in_range(batch, hiding), RowKind.INSERT)
            keys, instants, ordering = opened.deleted()
            within = self._within(instants)
            deletes.append(self.deleted(paths.partition, keys.filter(within), [o.filter(within) for o in ordering]))
        if split.before:
            deletes.append(self._folded(split, alive, deletes))
        for batch in deletes:
            if comparing:
                batch = batch.filter(pc.invert(pc.is_in(batch.column(RECORD_KEY), value_set=_joined(alive))))
            yield from self._out(batch, RowKind.DELETE)

    def _columns(self, keyed: bool) -> tuple[str, ...]:
        extra = (COMMIT_TIME, *((*self.reader.keys, *self.reader.rules.ordering) if keyed else ()))
        return tuple(dict.fromkeys([*self.decoded, *extra]))

    def _narrow(self) -> Node | None:
        """A predicate for statistics, which know no sets: it is true at least of the range's rows."""
        if not self.commits:
            return None
        written = Column((COMMIT_TIME,))
        return all_of(
            Call("greater_equal", (written, Literal.of(min(self.commits)))),
            Call("less_equal", (written, Literal.of(max(self.commits)))),
        )

    def _within(self, instants: pa.Array | pa.ChunkedArray) -> pa.Array:
        if self.commits is None:
            return pc.is_valid(instants)
        return pc.is_in(instants, value_set=pa.array(sorted(self.commits), pa.string()))

    def _in_range(self, batch: pa.RecordBatch, hiding: list[MergedLog]) -> pa.RecordBatch:
        """The rows that the range wrote, and those that it brought back from under the earlier logs `hiding`."""
        if self.commits is None:
            return batch
        within = self._within(batch.column(COMMIT_TIME))
        if hiding:
            within = pc.or_(within, pa.array(self.reader.reappeared(batch, hiding)))
        return batch if pc.all(within).as_py() else batch.filter(within)

    def _folded(self, split: HudiSplit, alive: list[pa.Array], deletes: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Deletes that no log holds: keys from before that are neither alive nor among the deletes of logs."""
        accounted_for = _joined([*alive, *(batch.column(RECORD_KEY) for batch in deletes)])
        known: list[pa.Array] = []
        for paths in split.before:
            for batch in self.reader.open(paths, self.reader.keys).rows():
                known += row_keys(batch, self.reader.keys).chunks
        keys = pc.unique(_joined(known))
        keys = keys.filter(pc.invert(pc.is_in(keys, value_set=accounted_for)))
        return self.deleted(split.before[0].partition, keys, ())

    def deleted(self, partition: str, keys: pa.Array, ordering: Sequence[pa.Array]) -> pa.RecordBatch:
        """Rows that hold only what is known of a delete: key, partition and ordering columns."""
        values: dict[str, pa.Array] = dict(zip(self.reader.rules.ordering, ordering, strict=False))
        for name, value in self.reader.partitions.values(partition, self.reader.table_schema).items():
            values[name] = pa.repeat(value, len(keys))
        values |= self._key_columns(keys)
        values[RECORD_KEY] = keys
        values[PARTITION_PATH] = pa.repeat(pa.scalar(partition), len(keys))
        names = [*dict.fromkeys([*self.decoded, RECORD_KEY])]
        fields = [self.reader.table_schema.field(name) for name in names]
        return pa.RecordBatch.from_arrays(
            [values.get(field.name, pa.nulls(len(keys), field.type)) for field in fields],
            schema=pa.schema([field.with_nullable(True) for field in fields]),
        )

    def _key_columns(self, keys: pa.Array) -> dict[str, pa.Array]:
        """The key generator's fields, parsed from record keys, as far as the text tells them."""
        schema, units = self.reader.table_schema, self.reader.schemas.units
        if not all(name in schema.names for name in self.record_keys):
            return {}
        fields = [schema.field(name) for name in self.record_keys]
        return self.key_form.known_columns(keys, fields, [bare_unit(f.type, units.get((f.name,))) for f in fields])

    def _out(self, batch: pa.RecordBatch, kind: RowKind) -> Iterator[pa.RecordBatch]:
        yield from self.out(batch, pa.repeat(pa.scalar(kind.short), batch.num_rows))

    def out(self, batch: pa.RecordBatch, kinds: pa.Array) -> Iterator[pa.RecordBatch]:
        """The rows that the predicate keeps, in the columns of `schema`, with these kinds."""
        if self.predicate is not None:
            batch = keep(batch.append_column(ROW_KIND_COLUMN, kinds), self.predicate)
            kinds = batch.column(ROW_KIND_COLUMN)
        if not batch.num_rows:
            return
        columns = [kinds if name == ROW_KIND_COLUMN else batch.column(name) for name in self.schema.names]
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _joined(keys: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays(keys) if keys else pa.array([], pa.string())
