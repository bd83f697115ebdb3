"""What the options of Hudi's own Spark source mean, so that `spark.read.format("hudi")` in an existing job runs
unchanged.

Rules: Hudi's `DataSourceReadOptions`, `DefaultSource`, `IncrementalRelation` and `HoodieStreamSource`. Rows come as
that source gives them: no row kinds, no deletes; with the incremental format cdc the rows before and after each change.
An incremental read begins after `begin.instanttime`, as Hudi 1.1 does for every table version. A stream starts where
`hoodie.datasource.streaming.startOffset` says: with everything (earliest, the default), with what comes next (latest),
or after an instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import OptionError
from lakebed.formats.hudi.options import (
    AS_OF,
    BEGIN,
    END,
    FALLBACK,
    FULL_SCAN,
    INCREMENTAL_FORMAT,
    MERGE_TYPE,
    QUERY_TYPE,
    READ,
    SPARK,
    START_OFFSET,
)
from lakebed.formats.hudi.read.cdc import all_commits, full_plan, row_changes
from lakebed.formats.hudi.read.cdc_json import CDC_SCHEMA, CdcRows
from lakebed.formats.hudi.read.changes import Range, plan_changes, range_of
from lakebed.formats.hudi.read.snapshot import plan_snapshot
from lakebed.formats.hudi.read.split import HudiSplit
from lakebed.formats.hudi.read.state import COMMIT_TIME, META, TableState
from lakebed.formats.hudi.read.stream import HudiStream
from lakebed.kernel.options import Options
from lakebed.kernel.predicates import Where, parse_where
from lakebed.model.rowkind import ROW_KIND_COLUMN
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.stream import Limits
from lakebed.verbs.table import project


def plan_spark_read(
    state: TableState, given: Mapping[str, object], columns: Sequence[str] | None = None, where: Where = None
) -> ReadPlan[HudiSplit]:
    """The plan of a batch read: a snapshot, one as of an instant, read-optimized, or incremental.

    Raises OptionError for a key that Hudi's source does not have, and for an incremental read without its begin.
    """
    options = SPARK.parse(given)
    if options[QUERY_TYPE] != "incremental":
        return plan_snapshot(state, _read_options(options), columns, where, options[AS_OF] or None)
    if not options.given(BEGIN):
        raise OptionError(
            "an incremental read needs its begin",
            key=BEGIN.key,
            table=state.store.location,
            todo=f"Set {BEGIN.key}, exclusive; 000 is the beginning of history",
        )
    begin = options[BEGIN]
    after = None if begin.lower() == "earliest" else begin
    if options[INCREMENTAL_FORMAT] == "cdc":
        wanted = all_commits(state, range_of(state, after, options[END] or None))
        return plan_cdc_rows(state, _read_options(options), columns, where, wanted)
    return rows_only(state, plan_changes(state, _read_options(options), columns, where, after, options[END] or None))


def spark_stream(
    state: Callable[[], TableState],
    given: Mapping[str, object],
    columns: Sequence[str] | None = None,
    where: Where = None,
) -> SparkStream:
    """The stream that Hudi's source would give."""
    options = SPARK.parse(given)
    stream = HudiStream(state, _read_options(options), columns, where)
    if options[INCREMENTAL_FORMAT] == "cdc":
        stream = CdcStream(state, _read_options(options), columns, where)
    return SparkStream(stream, state, options[START_OFFSET])


class SparkStream:
    """A stream of rows without kinds or deletes."""

    def __init__(self, stream: HudiStream, state: Callable[[], TableState], start: str) -> None:
        self._stream, self._state, self._start = stream, state, start

    @property
    def schema(self) -> pa.Schema:
        """The table's columns, or those of cdc."""
        if isinstance(self._stream, CdcStream):
            return self._stream.schema
        return _plain(self._state(), self._stream.schema)

    def initial(self) -> str:
        """The position that the start offset names."""
        if self._start.lower() == "earliest":
            return self._stream.before_everything()
        if self._start.lower() == "latest":
            return self._stream.after_everything()
        return self._stream.after(self._start)

    def latest(self, start: str, limits: Limits) -> str:
        """The position to read up to."""
        return self._stream.latest(start, limits)

    def plan(self, start: str, end: str) -> ReadPlan[HudiSplit]:
        """The rows of a batch."""
        plan = self._stream.plan(start, end)
        return plan if isinstance(self._stream, CdcStream) else rows_only(self._state(), plan)


class CdcStream(HudiStream):
    """A stream of full changes in the columns of cdc."""

    def _planned(self, state: TableState, wanted: Range) -> ReadPlan[HudiSplit]:
        return plan_cdc_rows(state, self._options, self._columns, self._where, wanted, wanted.everything)


def plan_cdc_rows(
    state: TableState,
    options: Options,
    columns: Sequence[str] | None,
    where: Where,
    wanted: Range,
    as_it_stands: bool = False,
) -> ReadPlan[HudiSplit]:
    """Full changes in the columns op, ts_ms, before and after; `columns` and `where` speak of these."""
    names = project(columns, CDC_SCHEMA, table=state.store.location)
    user = tuple(name for name in state.schema().names if name not in META)
    changes = row_changes(state, options, wanted, (COMMIT_TIME, *user))
    task = CdcRows(changes, pa.schema([CDC_SCHEMA.field(name) for name in names]), parse_where(where, CDC_SCHEMA))
    return full_plan(state, options, wanted, task, as_it_stands)


def rows_only(state: TableState, plan: ReadPlan[HudiSplit]) -> ReadPlan[HudiSplit]:
    """The plan of changes as a plan of rows: what was inserted or updated, as the table's columns."""
    schema = _plain(state, plan.schema)
    return ReadPlan(schema, plan.splits, RowsOnly(plan.read, schema), plan.warnings)


@dataclass(frozen=True, slots=True)
class RowsOnly:
    """Leaves deletes and old versions out of a task's batches, and the column of row kinds."""

    read: Callable[[HudiSplit], Iterator[pa.RecordBatch]]
    schema: pa.Schema

    def __call__(self, split: HudiSplit) -> Iterator[pa.RecordBatch]:
        """The split's rows."""
        for batch in self.read(split):
            kept = batch.filter(pc.is_in(batch.column(ROW_KIND_COLUMN), value_set=pa.array(["+I", "+U"])))
            if kept.num_rows:
                columns = [kept.column(name) for name in self.schema.names]
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _plain(state: TableState, schema: pa.Schema) -> pa.Schema:
    table = state.schema()
    return pa.schema([table.field(name) for name in schema.names if name != ROW_KIND_COLUMN])


def _read_options(options: Options) -> Options:
    """The same in the keys that the planners know."""
    query = options[QUERY_TYPE]
    return READ.parse(
        {
            MERGE_TYPE.key: options[MERGE_TYPE],
            QUERY_TYPE.key: "snapshot" if query == "incremental" else query,
            FALLBACK.key: "full-scan" if options[FULL_SCAN] else "fail",
            **{key: text for key, text in options.raw.items() if key.lower().startswith(READ.prefixes)},
        }
    )
