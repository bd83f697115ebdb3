"""The options of Hudi's own Spark source, so that `spark.read.format("hudi")` in an existing job runs unchanged.

Rules: Hudi's `DataSourceReadOptions`, `DefaultSource`, `IncrementalRelation` and `HoodieStreamSource`. Rows come as
that source gives them: no row kinds and no deletes; with the incremental format cdc the rows before and after each
change. An incremental read begins after `begin.instanttime`, as Hudi 1.1 does for every table version. A stream starts
where `hoodie.datasource.streaming.startOffset` says: with everything (earliest, the default), with what comes next
(latest), or after an instant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakebed.errors import OptionError
from lakebed.formats.hudi.layout import COMMIT_TIME, META_COLUMNS
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
    ROLLED_BACK,
    SCHEMA_OF_END,
    SPARK,
    START_OFFSET,
    TABLE_PATH,
    VALUES_FROM_PATH,
)
from lakebed.formats.hudi.read.batch import EARLIEST, check_alone, rows_only
from lakebed.formats.hudi.read.cdc import plan_with_task, row_changes
from lakebed.formats.hudi.read.cdc_json import CDC_SCHEMA, CdcRows
from lakebed.formats.hudi.read.changes import plan_range
from lakebed.formats.hudi.read.commit_range import CommitRange, range_between
from lakebed.formats.hudi.read.plan import plan_snapshot
from lakebed.formats.hudi.read.request import ReadRequest
from lakebed.formats.hudi.read.split import HudiSplit
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.read.stream import HudiStream
from lakebed.formats.hudi.unserved import UNSERVED_READS, refuse_unserved
from lakebed.kernel.options import Option, Options
from lakebed.kernel.predicates.where import Where
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.stream import Limits


def plan_spark_read(
    state: TableState, given: Mapping[str, object], columns: Sequence[str] | None = None, where: Where = None
) -> ReadPlan[HudiSplit]:
    """The plan of a batch read: a snapshot, one as of an instant, read-optimized, or incremental.

    Raises OptionError for a key that Hudi's source does not have, and for an incremental read without its begin.
    """
    options = SPARK.parse(given)
    SPARK.note_idle(given, "Hudi")
    _check_served(options, state)
    request = ReadRequest(_read_options(options), columns, where)
    if options[QUERY_TYPE] != "incremental":
        _refuse(
            options, (BEGIN, END, INCREMENTAL_FORMAT, START_OFFSET), f"{QUERY_TYPE.key} = {options[QUERY_TYPE]}", state
        )
        return plan_snapshot(state, request, options[AS_OF] or None)
    if not options.given(BEGIN):
        raise OptionError(
            "an incremental read needs its begin",
            key=BEGIN.key,
            table=state.store.location,
            todo=f"Set {BEGIN.key}, exclusive; 000 is the beginning of history",
        )
    _refuse(options, (AS_OF, START_OFFSET), f"{QUERY_TYPE.key} = incremental", state)
    begin = "" if options[BEGIN].lower() == EARLIEST else options[BEGIN]
    check_alone(request.options, "an incremental read", state.store.location)
    low, high = state.bound_of(begin, BEGIN.key), state.bound_of(options[END], END.key)
    state.read_ahead(high)
    commit_range = range_between(state, request.options, low, high)
    if options[INCREMENTAL_FORMAT] == "cdc":
        return plan_cdc_rows(state, request, commit_range.with_each_commit(state))
    return rows_only(state, plan_range(state, request, commit_range))


def spark_stream(
    state: Callable[[], TableState],
    given: Mapping[str, object],
    columns: Sequence[str] | None = None,
    where: Where = None,
) -> SparkStream:
    """The stream that Hudi's source gives."""
    options, now = SPARK.parse(given), state()
    SPARK.note_idle(given, "Hudi")
    _check_served(options, now)
    _refuse(options, (AS_OF, BEGIN, END), "a stream", now)
    request = ReadRequest(_read_options(options), columns, where)
    check_alone(request.options, "a stream", now.store.location)
    stream = (CdcStream if options[INCREMENTAL_FORMAT] == "cdc" else RowsStream)(state, request)
    return SparkStream(stream, options[START_OFFSET])


class SparkStream:
    """A stream that begins where Hudi's source does."""

    def __init__(self, stream: HudiStream, start: str) -> None:
        self._stream, self._start = stream, start

    @property
    def schema(self) -> pa.Schema:
        """The table's columns, or those of cdc."""
        return self._stream.schema

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

    def ends(self, start: str, limits: Limits) -> tuple[str, ...]:
        """The positions after all batches up to what is there now."""
        return self._stream.ends(start, limits)

    def after_everything(self) -> str:
        """The position after all that is completed now."""
        return self._stream.after_everything()

    def plan(self, start: str, end: str) -> ReadPlan[HudiSplit]:
        """The rows of a batch."""
        return self._stream.plan(start, end)


class RowsStream(HudiStream):
    """A stream of rows without row kinds or deletes."""

    def _plan_batch(self, state: TableState, commit_range: CommitRange) -> ReadPlan[HudiSplit]:
        return rows_only(state, super()._plan_batch(state, commit_range))


class CdcStream(HudiStream):
    """A stream of full changes in the columns of cdc."""

    def _plan_batch(self, state: TableState, commit_range: CommitRange) -> ReadPlan[HudiSplit]:
        return plan_cdc_rows(state, self._request, commit_range)


def plan_cdc_rows(state: TableState, request: ReadRequest, commit_range: CommitRange) -> ReadPlan[HudiSplit]:
    """Full changes in the columns op, ts_ms, before and after, which the request's columns and predicate name."""
    projection = request.projected(CDC_SCHEMA, state.store.location)
    user = tuple(name for name in state.schema().names if name not in META_COLUMNS)
    changes = row_changes(state, request.options, commit_range, (COMMIT_TIME, *user))
    schema = pa.schema([CDC_SCHEMA.field(name) for name in projection.columns])
    return plan_with_task(state, request.options, commit_range, CdcRows(changes, schema, projection.predicate))


def _check_served(options: Options, state: TableState) -> None:
    """Raise OptionError or UnsupportedError for what Hudi's source can do and lakebed cannot."""
    table = state.store.location
    refuse_unserved(options.raw, table, UNSERVED_READS)
    if options[VALUES_FROM_PATH] and not state.config.drops_partition_columns:
        raise _refused(VALUES_FROM_PATH, table, "lakebed reads partition columns from the files")
    if options[SCHEMA_OF_END]:
        raise _refused(SCHEMA_OF_END, table, "lakebed gives a range the columns of the newest schema")
    if options[TABLE_PATH] and _place(options[TABLE_PATH]) != _place(table):
        raise _refused(TABLE_PATH, table, "it names another location than the one that is loaded")


def _refuse(options: Options, wrong: Sequence[Option[str]], what: str, state: TableState) -> None:
    """Raise OptionError for keys of another kind of read: ignoring them would give other rows than asked."""
    for option in wrong:
        if options.given(option) and options[option] != option.default:
            raise _refused(option, state.store.location, f"{what} has no use for it")


def _refused(option: Option[Any], table: str, why: str) -> OptionError:
    return OptionError(f"option {option.key!r} is refused", key=option.key, table=table, why=why, todo="Leave it out")


def _place(location: str) -> str:
    """A location in one form, so that two can be compared."""
    return re.sub(r"^s3[an]://", "s3://", re.sub(r"^file:(//)?", "", location)).rstrip("/")


def _read_options(options: Options) -> Options:
    """The options under the keys of `lakebed.open`, which the planners know."""
    query = options[QUERY_TYPE]
    return READ.parse(
        {
            MERGE_TYPE.key: options[MERGE_TYPE],
            QUERY_TYPE.key: "snapshot" if query == "incremental" else query,
            FALLBACK.key: "full-scan" if options[FULL_SCAN] else "fail",
            ROLLED_BACK.key: options[ROLLED_BACK],
            **{key: text for key, text in options.raw.items() if key.lower().startswith(READ.prefixes)},
        }
    )
