"""What a batch read gives: a snapshot, or the rows of a range of commits where its options name one.

Rules: Hudi's Flink source (`HoodieTableFactory.setupReadOptions`, `IncrementalQueryAnalyzer`). With `read.start-commit`
or `read.end-commit` a batch reads a range, both ends inclusive. `earliest` is the beginning of history. Without a start
the range is the newest commit up to the end; so it is for `hoodie.datasource.query.type = incremental` alone. The rows
are those of the range as they stand at its end, without deletes. With `cdc.enabled` they are the full changes, with
their row kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import OptionError
from lakebed.formats.hudi.options import AS_OF, CDC, CHANGELOG, END_COMMIT, MERGE_TYPE, QUERY_TYPE, START_COMMIT
from lakebed.formats.hudi.read.cdc import plan_full_changes
from lakebed.formats.hudi.read.changelog import plan_changelog
from lakebed.formats.hudi.read.changes import plan_range
from lakebed.formats.hudi.read.commit_filter import brings_rows
from lakebed.formats.hudi.read.commit_range import CommitRange, empty_range, just_before, range_between
from lakebed.formats.hudi.read.plan import plan_snapshot
from lakebed.formats.hudi.read.request import ReadRequest
from lakebed.formats.hudi.read.split import HudiSplit
from lakebed.formats.hudi.read.state import TableState
from lakebed.kernel.options import Options
from lakebed.model.rowkind import ROW_KIND_COLUMN
from lakebed.verbs.arguments import Position
from lakebed.verbs.read import ReadPlan

EARLIEST = "earliest"


def plan_batch(state: TableState, request: ReadRequest, as_of: Position) -> ReadPlan[HudiSplit]:
    """The splits of a batch read. `as_of` is the moment of a snapshot, and the latest end of a range.

    Raises OptionError where the options ask for two reads at once.
    """
    options = request.options
    if not is_range(options):
        as_of = as_of if as_of is not None else options[AS_OF] or None
        if options[CHANGELOG]:
            bound = state.bound_of(as_of, "as_of")
            state.read_ahead(bound, partitions=True)
            return _changelog_as_it_stands(state, request, bound)
        return plan_snapshot(state, request, as_of)
    check_alone(options, "a range of commits", state.store.location)
    commit_range = _range_of_options(state, options, state.bound_of(as_of, "as_of"))
    plan = plan_commits(state, request, commit_range)
    return plan if options[CHANGELOG] or options[CDC] else rows_only(state, plan)


def plan_change_range(state: TableState, request: ReadRequest, after: Position, until: Position) -> ReadPlan[HudiSplit]:
    """The splits of the changes in (after, until]. For an end that is None the options may name one."""
    options = request.options
    check_alone(options, "changes", state.store.location)
    low, high = state.bound_of(after, "after"), state.bound_of(until, "until")
    state.read_ahead(high)
    first, last = option_bounds(state, options)
    commit_range = range_between(state, options, low or just_before(first), high or last)
    if options[CHANGELOG] or options[CDC]:
        commit_range = commit_range.with_each_commit(state)
    return plan_commits(state, request, commit_range)


def plan_commits(state: TableState, request: ReadRequest, commit_range: CommitRange) -> ReadPlan[HudiSplit]:
    """The splits of a range in the kind of changes that the options ask for: net, full, or as files hold them."""
    if request.options[CHANGELOG]:
        return plan_changelog(state, request, commit_range)
    if request.options[CDC]:
        return plan_full_changes(state, request, commit_range)
    return plan_range(state, request, commit_range)


def _changelog_as_it_stands(state: TableState, request: ReadRequest, bound: str) -> ReadPlan[HudiSplit]:
    """The rows of base files, then the logs beside them, of the table now or as of an order."""
    options = request.options
    read_optimized, unmerged = options[QUERY_TYPE] == "read_optimized", options[MERGE_TYPE] == "skip_merge"
    if read_optimized or unmerged or options[CDC]:
        other = CDC if options[CDC] else QUERY_TYPE if read_optimized else MERGE_TYPE
        raise OptionError(
            f"option {other.key!r} cannot be used with {CHANGELOG.key!r}",
            key=other.key,
            table=state.store.location,
            why=f"{CHANGELOG.key} gives the logs unmerged, beside their base files",
            todo="Leave one of the two out",
        )
    return plan_changelog(state, request, empty_range(state.view(bound), from_beginning=True))


def check_alone(options: Options, what: str, table: str) -> None:
    """Raise OptionError for options that only a snapshot can honour, and for two kinds of changes at once."""
    if options[CHANGELOG] and options[CDC]:
        raise OptionError(
            f"options {CHANGELOG.key!r} and {CDC.key!r} are both true",
            key=CHANGELOG.key,
            table=table,
            why="the first gives changes as files hold them, the second rows before and after each change",
            todo="Choose one",
        )
    bad = (options[AS_OF] != "", options[QUERY_TYPE] == "read_optimized", options[MERGE_TYPE] != "payload_combine")
    for option, wrong in zip((AS_OF, QUERY_TYPE, MERGE_TYPE), bad, strict=True):
        if wrong:
            raise OptionError(
                f"option {option.key!r} is {options[option]!r} in a read of {what}",
                key=option.key,
                table=table,
                why="it applies to snapshots only",
                todo="Leave it out, or read a snapshot",
            )


def option_bounds(state: TableState, options: Options) -> tuple[str, str]:
    """Both ends that the options name, inclusive, as orders; "" for no end and for `earliest`."""
    start, end = options[START_COMMIT], options[END_COMMIT]
    low = "" if start.lower() == EARLIEST else state.bound_of(start, START_COMMIT.key)
    high = state.bound_of(end, END_COMMIT.key)
    if low and high and low > high:
        raise OptionError(
            f"option {START_COMMIT.key!r} is {start!r}, after {END_COMMIT.key!r}, which is {end!r}",
            key=START_COMMIT.key,
            table=state.store.location,
            todo="Exchange the two",
        )
    return low, high


def is_range(options: Options) -> bool:
    """Whether the options of a batch name a range of commits."""
    return bool(options[START_COMMIT] or options[END_COMMIT]) or options[QUERY_TYPE] == "incremental"


def _range_of_options(state: TableState, options: Options, as_of: str) -> CommitRange:
    low, high = option_bounds(state, options)
    high = min((bound for bound in (high, as_of) if bound), default="")
    state.read_ahead(high)
    if options[START_COMMIT].lower() == EARLIEST:
        return range_between(state, options, "", high)
    first = low or _newest(state, options, high)
    if not first:  # no commit as early as that
        return empty_range(state.view(high))
    return range_between(state, options, just_before(first), high)


def _newest(state: TableState, options: Options, high: str) -> str:
    """The order of the newest commit up to `high` that brings rows, "" for none."""
    for entry in sorted(state.view(high).entries, key=state.timeline.order, reverse=True):
        if brings_rows(state, options, state.files.commits([entry])[entry.time]):
            return state.timeline.order(entry)
    archived = state.archived.commits("", high) if high else []
    return next((old.order for old in reversed(archived) if brings_rows(state, options, old.commit)), "")


def rows_only(state: TableState, plan: ReadPlan[HudiSplit]) -> ReadPlan[HudiSplit]:
    """A plan of changes as a plan of rows: what was inserted or updated, in the table's columns."""
    schema = table_columns(state, plan.schema)
    return replace(plan, schema=schema, read=RowsOnly(plan.read, schema))


@dataclass(frozen=True, slots=True)
class RowsOnly:
    """Reads a split of changes without deletes, older versions and the column of row kinds."""

    read: Callable[[HudiSplit], Iterator[pa.RecordBatch]]
    schema: pa.Schema

    def __call__(self, split: HudiSplit) -> Iterator[pa.RecordBatch]:
        """The split's rows."""
        for batch in self.read(split):
            kept = batch.filter(pc.is_in(batch.column(ROW_KIND_COLUMN), value_set=pa.array(["+I", "+U"])))
            if kept.num_rows:
                columns = [kept.column(name) for name in self.schema.names]
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def table_columns(state: TableState, schema: pa.Schema) -> pa.Schema:
    """The schema of changes as the table's own columns."""
    table = state.schema()
    return pa.schema([table.field(name) for name in schema.names if name != ROW_KIND_COLUMN])
