"""The upkeep of a pipeline's sink: rewrite, expire and archive, each after every so many commits.

It runs between batches on the driver's side, where it meets the stream's own commits as any other writer would. A run
that fails harms nothing and ends no stream: it is said in the notes, and is tried again after the next commit. How many
commits each verb has waited for is kept in the checkpoint's folder, so that short runs count together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakebed.errors import PipelineFileError, UnsupportedError
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.files import Store
from lakebed.model.commit import Outcome
from lakebed.model.upkeep import ArchiveResult, ExpireResult, RewriteResult
from lakebed.spark.stream_sink import BatchReport
from lakebed.verbs.table import Table

STATE_FILE = "lakebed-upkeep"
"""In the checkpoint folder: the last batch that was counted, and the commits since each verb last ran."""


def refuse_impossible(table: Table, every: Mapping[str, int], file: str, location: str = "") -> None:
    """Raise PipelineFileError for a verb that this table cannot have, as its dry run tells. `location` is what the
    error names, where the table only stands for another."""
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
    """What is due of `every` (verb: after how many commits) for one query."""

    table: Table
    every: Mapping[str, int]
    checkpoint: Store
    ended: bool = False
    """Once it is set, commits are counted and nothing runs any more."""
    _through: int = -1
    _waited: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            kept = json.loads(self.checkpoint.read(STATE_FILE)) if self.every else {}
        except FileNotFoundError:
            kept = {}
        self._through = int(kept.get("through", -1))
        self._waited = {verb: int(kept.get("waited", {}).get(verb, 0)) for verb in self.every}

    def after(self, report: BatchReport) -> BatchReport:
        """Count a batch and run what is due; the report comes back with a note for each verb that ran."""
        if not self.every or report.batch_id <= self._through:
            return report
        notes: list[str] = []
        if report.outcome == Outcome.COMMITTED:
            for verb, count in self.every.items():
                self._waited[verb] += 1
                if self._waited[verb] >= count and not self.ended:
                    notes.append(self._run(verb))
        self._through = report.batch_id
        notes += afterwards("how long upkeep has waited is not kept", self._keep)
        return replace(report, notes=(*report.notes, *notes))

    def _keep(self) -> None:
        state = {"through": self._through, "waited": self._waited}
        self.checkpoint.write(STATE_FILE, json.dumps(state).encode())

    def _run(self, verb: str) -> str:
        try:
            said = _said(getattr(self.table, verb)())
        except Exception as error:  # noqa: BLE001 - the stream's commit stands, whatever befalls its upkeep
            return f"{verb} failed and is tried again after the next commit: {error}"
        self._waited[verb] = 0
        return f"{verb}: {said}"


def _said(result: RewriteResult | ExpireResult | ArchiveResult) -> str:
    if isinstance(result, RewriteResult):
        failed = f", {len(result.failed)} groups failed: {result.failed[0].reason}" if result.failed else ""
        return f"{result.files_before} files became {result.files_after}{failed}"
    if isinstance(result, ExpireResult):
        return f"{len(result.expired)} snapshots and {len(result.deleted_files)} files went, {len(result.kept)} stay"
    return f"{len(result.archived)} instants left the active timeline, {len(result.kept)} stay"
