"""Write a stream: each micro-batch is one commit, exactly once.

The commit user is a random id that is kept in the query's checkpoint folder, the commit identifier is the batch id. A
crash between the table's commit and Spark's commit log makes Spark replay the batch. The replay has the same user and
identifier, so the table skips it and its files are removed. Deleting the checkpoint starts a new user.

A checkpoint that is older than the table gives a batch id to other rows of the source. To skip these would lose them.
So each commit keeps a digest of where its batch ends in the source, and a batch that ends elsewhere is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

import lakebed.formats as formats
from lakebed.errors import StorageError, UsageError
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.files import PutOutcome, Store, open_store
from lakebed.kernel.observers import watching
from lakebed.kernel.options import option_texts
from lakebed.redaction import redacting_logger
from lakebed.spark import worker
from lakebed.spark.catalogs import open_in_session
from lakebed.spark.engine import SparkEngine, default_parallelism, run_workers_here
from lakebed.spark.failures import explained_errors, translate_errors
from lakebed.spark.few_rows import ROWS, few_rows
from lakebed.spark.sink import (
    PARALLELISM_OPTION,
    SinkInput,
    Written,
    by_place,
    sink_parallelism,
    write_files,
    write_task,
)
from lakebed.spark.slow_start import despite_slow_start
from lakebed.spark.types import arrow_schema
from lakebed.verbs.table import Table
from lakebed.verbs.write import Sink, WritePlan, finalize_and_commit, swept

USER_FILE = "lakebed-commit-user"
"""The file in the checkpoint folder that holds the query's commit user."""
REPORTS_FOLDER = "lakebed-batches"
"""In the checkpoint folder: what the newest batches did, one small JSON file each."""
_LOG = redacting_logger("lakebed.spark")
_REPORTS_KEPT = 100
_OFFSETS = "offsets"
"""Spark's folder in a checkpoint: a file per batch, written before the batch runs. Its lines are a version, what is
known of the batch, and its end in each source. Rule: Spark's `OffsetSeqLog`."""
_LINES_BEFORE_ENDS = 2


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What one micro-batch did: how many rows the sink's tasks took, and how its commit ended.

    `instant` is "" when there was nothing to commit.
    """

    batch_id: int
    rows: int
    instant: str
    outcome: str
    notes: tuple[str, ...] = ()


def write_stream(
    df: DataFrame,
    location: str,
    checkpoint: str,
    options: Mapping[str, object] = {},
    *,
    trigger: Mapping[str, object] | None = None,
    name: str | None = None,
) -> StreamingQuery:
    """Start a query that appends each micro-batch as one commit, exactly once, also over restarts.

        query = lakebed.spark.write_stream(
            changes, "s3://bucket/orders", "s3://bucket/checkpoints/orders", trigger={"availableNow": True}
        )
        query.awaitTermination()

    `checkpoint` is the query's folder: a path or URL that both Spark and lakebed can reach. `options` are the table's
    own, and `sink.parallelism`. `trigger` is what `DataStreamWriter.trigger` takes. A column `_row_kind` holds the kind
    of each row. Over Connect the batches run on the server, which must have lakebed installed.

    Raises UsageError for a DataFrame that does not stream, SchemaError when a column cannot fit the table, StorageError
    for a checkpoint that has lost a part. The query ends with a CommitConflictError where the checkpoint is older than
    the table.
    """
    translate_errors()
    if not df.isStreaming:
        raise UsageError("the DataFrame does not stream", table=location, todo="Write a batch with lakebed.spark.write")
    texts = {key.lower(): text for key, text in option_texts(options).items()}
    run_workers_here(df.sparkSession)
    parallelism = sink_parallelism(texts) or default_parallelism(df.sparkSession)
    own = {key: text for key, text in option_texts(options).items() if key.lower() != PARALLELISM_OPTION}
    with explained_errors():
        table, table_options = open_in_session(df.sparkSession, location, own)
    rows = arrow_schema(df.schema)
    sink = table.sink_for(rows)
    SinkInput.of(rows, sink, table.location)
    folder = open_store(checkpoint, table_options)
    check_whole(folder, sink.knows_batches)
    place = location if formats.is_catalog_name(location) else table.location
    task = StreamSink(place, table_options, folder.location, commit_user(folder), parallelism)
    writer = df.writeStream.foreachBatch(worker.over_frame(worker.pack(task)))
    writer = writer.option("checkpointLocation", folder.location)
    if trigger:
        writer = writer.trigger(**trigger)  # type: ignore[call-overload]  # the caller's, checked by Spark
    if name:
        writer = writer.queryName(name)
    return despite_slow_start(writer.start)


@dataclass(slots=True)
class StreamSink:
    """Writes the micro-batches of one query. Picklable before the first: over Connect it runs in a process of the
    server.

    The table stays open from batch to batch, so that its format is not detected again. Each batch reads the table's
    schema and newest snapshot anew.
    """

    location: str
    options: Mapping[str, str]
    checkpoint: str
    user: str
    parallelism: int
    _table: Table | None = field(default=None, init=False, repr=False)
    _folder: Store | None = field(default=None, init=False, repr=False)
    _few: bool = field(default=False, init=False, repr=False)

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write and commit the batch, and keep a report of it in the checkpoint."""
        if self._folder is None:
            self._folder = open_store(self.checkpoint, self.options)
        if self._table is None:
            self._table = formats.open_table(self.location, self.options)
        else:
            self._table = self._table.reopened()
        checkpoint = self._folder
        rows = arrow_schema(df.schema)
        with watching("write", self._table.format, self.location) as watched:
            sink = self._table.sink_for(rows, commit_user=self.user)
            with swept(sink):
                plan, written = self._written(df, sink, SinkInput.of(rows, sink, self.location))
                engine = SparkEngine(df.sparkSession, self.parallelism)
                result = finalize_and_commit(
                    sink, plan, written.messages, engine, batch_id, origin_of(checkpoint, batch_id)
                )
            watched.result = result
        report = BatchReport(batch_id, written.rows, result.instant, str(result.outcome), result.notes)
        for note in afterwards("its report is not kept", lambda: self._keep(checkpoint, report)):
            _LOG.warning("%s, batch %d: %s", self.location, batch_id, note)

    def _written(self, df: DataFrame, sink: Sink, taken: SinkInput) -> tuple[WritePlan, Written]:
        """Write the rows of a batch. Where they had to be routed last time and were few, we see first whether they are
        few again: this process then writes them, with no shuffle."""
        batches = few_rows(by_place(df, taken), taken.take) if self._few else None
        if batches is not None:
            plan = sink.plan()
            messages, rows = write_task(plan, iter(batches), os.cpu_count() or 1)
            written = Written(tuple(messages), rows)
        else:
            plan = sink.plan(self.parallelism)
            written = write_files(df, plan, taken, self.parallelism)
        self._few = plan.routing is not None and written.rows <= ROWS
        return plan, written

    def _keep(self, checkpoint: Store, report: BatchReport) -> None:
        checkpoint.write(_report_file(report.batch_id), json.dumps(asdict(report)).encode())
        if report.batch_id >= _REPORTS_KEPT:
            checkpoint.delete(_report_file(report.batch_id - _REPORTS_KEPT))


def origin_of(checkpoint: Store, batch_id: int) -> str:
    """A digest of where a batch ends in each source, as Spark wrote it before the batch; "" where that is not there."""
    try:
        lines = checkpoint.read(f"{_OFFSETS}/{batch_id}").split(b"\n")
    except FileNotFoundError:
        return ""
    return hashlib.sha256(b"\n".join(lines[_LINES_BEFORE_ENDS:])).hexdigest()[:32]


def check_whole(checkpoint: Store, is_known: bool) -> None:
    """StorageError for a checkpoint that has batches and no commit user, or a commit user with batches and none of
    Spark's own files: the first would repeat batches under another name, unless the table knows them all the same
    (`is_known`), the second would take new batches for old ones."""
    if any(info.name.isdigit() for info in checkpoint.list(_OFFSETS).files):
        if not is_known and not checkpoint.exists(USER_FILE):
            raise _lost(checkpoint, USER_FILE, "it has batches, so a part of it was lost, or another sink made it")
    elif last_reported(checkpoint) >= 0:
        raise _lost(checkpoint, _OFFSETS, "it has reports of batches, so a part of it was lost")


def _lost(checkpoint: Store, part: str, why: str) -> StorageError:
    return StorageError(
        f"the checkpoint has no {part}",
        table=checkpoint.location,
        file=part,
        why=why,
        todo="Restore the whole folder, or start with a new checkpoint behind the rows that the table has",
    )


def commit_user(checkpoint: Store) -> str:
    """The query's commit user. The first call makes it; calls at the same time get the same one."""
    for _ in range(3):
        try:
            return checkpoint.read(USER_FILE).decode()
        except FileNotFoundError:
            user = str(uuid.uuid4())
        if checkpoint.put_if_absent(USER_FILE, user.encode()) is PutOutcome.CREATED:
            return user
    raise StorageError(
        "cannot keep the commit user in the checkpoint",
        table=checkpoint.location,
        file=USER_FILE,
        why="the store did not say whether it was written",
        todo="Start the query again",
    )


def reports(checkpoint: Store, after: int = -1, through: int | None = None) -> list[BatchReport]:
    """The reports of the batches after a batch id, in order. Only about the newest hundred are kept.

    With `through`, a batch that has ended, the reports are asked for by their names and no folder is listed.
    """
    if through is None:
        batches = [batch_id for batch_id in _reported(checkpoint) if batch_id > after]
    else:
        batches = [*range(max(after, through - _REPORTS_KEPT) + 1, through + 1)]
    contents = checkpoint.together(lambda batch_id: _content(checkpoint, batch_id), batches)
    fields = [json.loads(content) for content in contents if content is not None]
    return [BatchReport(**{**report, "notes": tuple(report["notes"])}) for report in fields]


def last_reported(checkpoint: Store) -> int:
    """The newest batch that has a report, -1 where none has."""
    return max(_reported(checkpoint), default=-1)


def _reported(checkpoint: Store) -> list[int]:
    return sorted(int(info.name) for info in checkpoint.list(REPORTS_FOLDER).files if info.name.isdigit())


def _content(checkpoint: Store, batch_id: int) -> bytes | None:
    """The report of a batch as it is kept, None where it could not be kept or is too old."""
    try:
        return checkpoint.read(_report_file(batch_id))
    except FileNotFoundError:
        return None


def _report_file(batch_id: int) -> str:
    return f"{REPORTS_FOLDER}/{batch_id}"
