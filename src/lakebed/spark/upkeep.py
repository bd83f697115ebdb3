"""Maintain a pipeline's sink: run rewrite, expire and archive, each after so many commits.

Maintenance runs on the driver between batches, and the stream's own commits are to it those of any other writer. When
it fails, it harms nothing and does not end the stream: a note says so, and it is tried again after the next commit. The
number of commits since each verb last ran is kept in the checkpoint folder, so that short runs add up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakebed.errors import PipelineFileError, UnsupportedError, counted
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.files import Store
from lakebed.model.commit import Outcome
from lakebed.model.upkeep import ArchiveResult, ExpireResult, RewriteResult
from lakebed.spark.stream_sink import BatchReport
from lakebed.verbs.table import Table

STATE_FILE = "lakebed-upkeep"
"""A file in the checkpoint folder: the last batch that was counted, and the commits since each verb last ran."""


def refuse_impossible(table: Table, every: Mapping[str, int], file: str, location: str = "") -> None:
    """Raise PipelineFileError for a verb that this table does not allow. A dry run finds out.

    `location` is the location that the error names, where the table only stands for another one.
    """
    for verb in every:
        try:
            getattr(table, verb)(dry_run=True)
        except UnsupportedError as error:
            raise PipelineFileError(
                f"upkeep.{verb} is not possible for this sink",
                key=f"upkeep.{verb}",
                file=file,
                table=location or table.location,
                why=error.what,
                todo=f"Leave {verb} out of [upkeep]",
            ) from error


@dataclass(slots=True)
class Upkeep:
    """Counts the commits of one query and runs the verbs that are due. `every` says after how many commits each is."""

    table: Table
    every: Mapping[str, int]
    checkpoint: Store
    ended: bool = False
    """Once it is set, commits are still counted, but nothing runs any more."""
    _last_batch: int = -1
    _commits_since: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            state = json.loads(self.checkpoint.read(STATE_FILE)) if self.every else {}
        except FileNotFoundError:
            state = {}
        self._last_batch = int(state.get("through", -1))
        self._commits_since = {verb: int(state.get("waited", {}).get(verb, 0)) for verb in self.every}

    def after(self, report: BatchReport) -> BatchReport:
        """Count a batch and run what is due. Returns the report with a note per verb that ran."""
        if not self.every or report.batch_id <= self._last_batch:
            return report
        notes: list[str] = []
        if report.outcome == Outcome.COMMITTED:
            for verb, count in self.every.items():
                self._commits_since[verb] += 1
                if self._commits_since[verb] >= count and not self.ended:
                    notes.append(self._run(verb))
        self._last_batch = report.batch_id
        notes += afterwards("the count of commits since the last upkeep is not kept", self._keep)
        return replace(report, notes=(*report.notes, *notes))

    def _keep(self) -> None:
        state = {"through": self._last_batch, "waited": self._commits_since}
        self.checkpoint.write(STATE_FILE, json.dumps(state).encode())

    def _run(self, verb: str) -> str:
        try:
            summary = _summary(getattr(self.table, verb)())
        except Exception as error:  # noqa: BLE001 - the stream's commit stands, whatever happens here
            return f"{verb} failed and is tried again after the next commit: {error}"
        self._commits_since[verb] = 0
        return f"{verb}: {summary}"


def _summary(result: RewriteResult | ExpireResult | ArchiveResult) -> str:
    if isinstance(result, RewriteResult):
        failed = f", {counted(len(result.failed), 'group')} failed: {result.failed[0].reason}" if result.failed else ""
        return f"{counted(result.files_before, 'file became', 'files became')} {result.files_after}{failed}"
    if isinstance(result, ExpireResult):
        files = counted(len(result.deleted_files), "file")
        return f"{counted(len(result.expired), 'snapshot')} and {files} removed, {len(result.kept)} kept"
    return f"{counted(len(result.archived), 'instant')} archived, {len(result.kept)} kept"
