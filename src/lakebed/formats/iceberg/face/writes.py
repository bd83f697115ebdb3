"""Writes to an Iceberg table: sinks, one commit, the two-phase form, and files that lie there already."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakebed.errors import UsageError
from lakebed.formats.iceberg.catalog.operations import Loaded, refuse_writing
from lakebed.formats.iceberg.face.opened import OpenedTable
from lakebed.kernel.options import option_texts
from lakebed.verbs.write import Mode

if TYPE_CHECKING:
    from lakebed.formats.iceberg.write.sink import IcebergSink
    from lakebed.kernel.engine import Engine
    from lakebed.model.commit import CommitResult
    from lakebed.model.upkeep import AddFilesResult
    from lakebed.verbs.two_phase import TableWriter


class Writes(OpenedTable):
    """The verbs that add rows and files, or change rows by key."""

    def sink(
        self,
        mode: Mode = Mode.APPEND,
        commit_user: str | None = None,
        callbacks: Sequence[Any] = (),
        options: Mapping[str, object] = {},
    ) -> IcebergSink:
        """The table as the target of a write by many tasks.

        Raises OptionError, UsageError when the mode needs a key and there is none, UnsupportedError for a table that
        lakebed does not write.
        """
        return self._sink(mode, commit_user, callbacks, options)

    def sink_for(self, rows: pa.Schema, mode: Mode = Mode.APPEND, commit_user: str | None = None) -> IcebergSink:
        """The table as the target of rows with these columns. With the option `merge-schema` it is altered first, where
        it does not have them."""
        return self._sink(mode, commit_user, rows=rows)

    def _sink(
        self,
        mode: Mode,
        commit_user: str | None = None,
        callbacks: Sequence[Any] = (),
        options: Mapping[str, object] = {},
        rows: pa.Schema | None = None,
    ) -> IcebergSink:
        from lakebed.formats.iceberg.alter.union import sink_of

        loaded = self._to_write()
        given = {**self.options, **option_texts(options)}
        return sink_of(self.operations, loaded, given, mode, self._target, commit_user, callbacks, rows)

    def write(self, data: Any, mode: str = "append", options: Mapping[str, object] = {}) -> CommitResult:
        """Write rows as one commit: append, overwrite, upsert or delete by key (docs/iceberg-sink.md).

        Raises SchemaError when rows do not fit. When the write fails, nothing is visible and no file stays.
        """
        from lakebed.verbs.two_phase import TableWriter

        rows = data.schema if isinstance(getattr(data, "schema", None), pa.Schema) else None
        if rows is None and hasattr(data, "__arrow_c_stream__"):
            data = pa.RecordBatchReader.from_stream(data)
            rows = data.schema
        with TableWriter(self._sink(Mode.parse(mode), options=options, rows=rows)) as writer:
            writer.write(data)
            writer.prepare_commit()
        return writer.commit_for_good()

    def writer(self, commit_user: str | None = None, callbacks: Sequence[Any] = ()) -> TableWriter:
        """A writer whose caller decides when to commit. It appends rows; rows with a `_row_kind` are changes by key."""
        from lakebed.verbs.two_phase import TableWriter

        return TableWriter(self.sink(commit_user=commit_user, callbacks=callbacks))

    def add_files(
        self, paths: str | Sequence[str], dry_run: bool = False, engine: Engine | None = None,
        options: Mapping[str, object] = {},
    ) -> AddFilesResult:  # fmt: skip
        """Add Parquet, ORC and Avro files, or all those of folders, in one append. They stay where they are, and belong
        to the table then.

        Partition values come from paths (`dt=2026-11-01/`), else from the files' metrics where they leave one value.
        Raises UsageError for files that the table has already, SchemaError for those that do not fit it, and
        UnsupportedError for a place that the table may not touch (docs/iceberg-add-files.md).
        """
        from lakebed.formats.iceberg.add_files.run import add_files

        locations = [paths] if isinstance(paths, str | os.PathLike) else paths
        if not isinstance(locations, Sequence) or not all(isinstance(one, str | os.PathLike) for one in locations):
            raise UsageError(f"paths is a {type(paths).__name__}", todo="Give a location, or a list of locations")
        given = self._given(options)
        urls = [os.fspath(one) for one in locations]
        return add_files(self.operations, self._target, urls, given, dry_run, engine)

    def _to_write(self) -> Loaded:
        """The current metadata, for a write. Raises what `refuse_writing` raises."""
        loaded = self.operations.load()
        refuse_writing(self.operations, loaded)
        return loaded
