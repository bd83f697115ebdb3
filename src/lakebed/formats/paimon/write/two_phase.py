"""The two-phase write of a Paimon table: `lakebed.verbs.two_phase`, with the settings that Paimon has for commits.

Counterpart of Paimon's InnerTableCommit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakebed.errors import UsageError
from lakebed.formats.paimon.write.sink import PaimonSink
from lakebed.verbs.two_phase import TableWriter


class PaimonTableWriter(TableWriter):
    """A `TableWriter` with settings for its commits. Each method returns the writer."""

    def __init__(self, sink: PaimonSink, threads: int | None = None) -> None:
        super().__init__(sink, threads)
        self._paimon = sink

    def with_overwrite(self, spec: Mapping[str, Any]) -> PaimonTableWriter:
        """Make the write an overwrite of the partitions that `spec` names, by plain values.

        With `{}` it replaces the partitions that get rows; the whole table where there are no partitions, or
        `dynamic-partition-overwrite` is false. UsageError once rows were written, and for None, whose meaning differs
        between releases of Paimon.
        """
        if spec is None:
            raise UsageError(
                "with_overwrite(None) has no meaning: Paimon releases take it for no overwrite or for a dynamic one",
                todo="Leave the call out to append; give {} to overwrite the partitions that get rows",
            )
        if self._writer is not None:
            raise UsageError("rows were written already", todo="Call with_overwrite before the first write")
        self._sink = self._paimon = self._paimon.with_overwrite(spec)
        return self

    def ignore_empty_commit(self, ignore: bool) -> PaimonTableWriter:
        """Whether a commit without files makes no snapshot. By default a batch commit makes none, and a commit with an
        identifier makes one."""
        return self._with(ignore_empty=ignore)

    def expire_for_empty_commit(self, expire: bool) -> PaimonTableWriter:
        """Whether to expire old snapshots after a commit without files too; the default is true."""
        return self._with(expire_for_empty=expire)

    def append_commit_check_conflict(self, check: bool) -> PaimonTableWriter:
        """Whether to look for conflicts before appends too, as before overwrites and compactions; the default is
        false."""
        return self._with(check_appends=check)

    def row_id_check_conflict(self, snapshot_id: int | None) -> PaimonTableWriter:
        """Refuse a commit when a snapshot after this one changed rows with the same ids. None, the default: do not
        look."""
        return self._with(rows_since=snapshot_id)

    def with_watermark(self, millis: int | None) -> PaimonTableWriter:
        """The watermark of the commits from here on, in milliseconds since 1970. A snapshot has the greatest one so
        far; None, the default: that of the snapshot before it."""
        if millis is not None and (type(millis) is not int or not -(1 << 63) <= millis < 1 << 63):
            raise UsageError(f"{millis!r} is not a watermark", todo="Give milliseconds since 1970")
        return self._with(watermark=millis)

    def _with(self, **changed: Any) -> PaimonTableWriter:
        self._sink = self._paimon = self._paimon.with_commit_options(**changed)
        return self
