"""The two-phase write of a Paimon table: `lakebed.verbs.two_phase`, and what Paimon lets a commit be told besides.

Counterpart of Paimon's InnerTableCommit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakebed.errors import UsageError
from lakebed.formats.paimon.write.sink import PaimonSink
from lakebed.verbs.two_phase import TableWriter


class PaimonTableWriter(TableWriter):
    """A `TableWriter` whose commits can be told how to behave; each method gives the writer itself."""

    def __init__(self, sink: PaimonSink, threads: int | None = None) -> None:
        super().__init__(sink, threads)
        self._paimon = sink

    def with_overwrite(self, spec: Mapping[str, Any]) -> PaimonTableWriter:
        """Replace what is there: the partitions that `spec` names, by plain values; with `{}` those that get rows where
        the table is partitioned (unless `dynamic-partition-overwrite` is false), else the whole table.

        UsageError once rows were written, and for None, which releases of Paimon take for different things.
        """
        if spec is None:
            raise UsageError(
                "with_overwrite(None) says nothing: releases of Paimon take it for no overwrite, or for a dynamic one",
                todo="Leave the call out to append; give {} to overwrite the partitions that get rows",
            )
        if self._writer is not None:
            raise UsageError("rows were written already", todo="Call with_overwrite before the first write")
        self._sink = self._paimon = self._paimon.with_overwrite(spec)
        return self

    def ignore_empty_commit(self, ignore: bool) -> PaimonTableWriter:
        """Make no snapshot of a commit without files. Unless said: batch commits make none, commits with an identifier
        do."""
        return self._with(ignore_empty=ignore)

    def expire_for_empty_commit(self, expire: bool) -> PaimonTableWriter:
        """Expire old snapshots after a commit without files too, which is the default."""
        return self._with(expire_for_empty=expire)

    def append_commit_check_conflict(self, check: bool) -> PaimonTableWriter:
        """Look for conflicts before appends too, as before overwrites and compactions; the default is not to."""
        return self._with(check_appends=check)

    def row_id_check_conflict(self, snapshot_id: int | None) -> PaimonTableWriter:
        """Refuse a commit when a snapshot after this one changed rows with the same ids; None, the default, is not to
        look."""
        return self._with(rows_since=snapshot_id)

    def _with(self, **changed: Any) -> PaimonTableWriter:
        self._sink = self._paimon = self._paimon.with_commit_options(**changed)
        return self
