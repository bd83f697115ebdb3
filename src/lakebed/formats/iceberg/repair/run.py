"""A repair: a table checked, lost files brought back from a copy, and one snapshot without those that stay lost.

No engine has such an action; the nearest are Spark's `rewrite_manifests` and DeleteFiles of the reference engine's API,
by whose rules the snapshot is made (operation `delete`). Each attempt looks at the lost files again: one that came back
stays. A lost delete file is the dangerous case, since rows that it deleted would come back: a repair refuses then,
unless an option says what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakebed.errors import CorruptError, UsageError, counted
from lakebed.formats.iceberg.catalog.operations import Loaded, TableOperations, refuse_writing
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.commit.loop import commit_snapshot
from lakebed.formats.iceberg.commit.options import CommitOptions
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.repair import options as opt
from lakebed.formats.iceberg.repair.change import NothingLostError, WithoutLost
from lakebed.formats.iceberg.repair.check import Checker
from lakebed.formats.iceberg.repair.report import lost_files, share_lost
from lakebed.formats.iceberg.repair.restore import copy_back, found_in_copy
from lakebed.formats.iceberg.repair.scan import Findings, check_snapshots
from lakebed.kernel.again import looks_again
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.options import Options
from lakebed.model.upkeep import LostFile, RepairResult, Skipped

_LOOKS = 3
"""How often a table is checked again when others commit while it is checked."""


def repair(
    operations: TableOperations, branch: str, options: Mapping[str, object], dry_run: bool, engine: Engine | None
) -> RepairResult:
    """Check a branch and commit a snapshot without what is lost; restore from a copy first, where one is named.

    Raises CorruptError for what a repair does not decide by itself (a lost manifest list, a lost delete file without
    an option, most files lost), UsageError for a branch that exists, CommitConflictError, CommitUnknownError.
    """
    given = opt.parsed(options)
    work = _planned(operations, branch, given, engine)
    for _ in range(_LOOKS):
        if work.findings.is_whole or operations.load().metadata.head(branch) == work.head:
            break
        work = _planned(operations, branch, given, engine)  # files may have expired since: that is no loss
    if dry_run or work.findings.is_whole:
        return work.result(dry_run)
    refuse_writing(operations, work.loaded)
    restored: dict[str, str] = {}
    lost = {file.path: file for file in work.lost}
    while work.in_copy.keys() - restored.keys():  # what a list or a manifest names is known once it is back
        copy_back(operations.files, given[opt.COPY], work.in_copy)
        restored |= work.in_copy
        work = _planned(operations, branch, given, engine)
        lost |= {file.path: file for file in work.lost}
    done = work.commit()
    return replace(done, lost=tuple(lost.values()), restored=tuple(restored))


@looks_again
def _planned(operations: TableOperations, branch: str, options: Options, engine: Engine | None) -> _Repair:
    loaded = operations.load()
    metadata = loaded.metadata
    target = options[opt.BRANCH]
    if target and target in metadata.refs:
        raise UsageError(
            f"there is already a branch or tag {target!r}", table=operations.name, todo="Choose another name"
        )
    head = metadata.head(branch)
    snapshots = [*metadata.snapshots.values()] if options[opt.SNAPSHOTS] == "all" else [head] if head else []
    checker, engine = _checker(operations.files, options, engine)
    findings = check_snapshots(operations.files, metadata, snapshots, checker, engine)
    of_head = findings
    if options[opt.SNAPSHOTS] == "all" and head is not None and not findings.is_whole:
        of_head = check_snapshots(operations.files, metadata, [head], checker, engine)
    depth = options[opt.CHECK] if options[opt.CHECK] == opt.DATA else opt.FOOTER
    in_copy = found_in_copy(operations.files, metadata, findings, options[opt.COPY], depth)
    lost = lost_files(operations.files, metadata, findings, in_copy, engine)
    return _Repair(operations, loaded, branch, head, options, checker, findings, of_head, lost, in_copy)


def _checker(files: Files, options: Options, engine: Engine | None) -> tuple[Checker, Engine]:
    """The check and where it runs: as many files at once as the option says, over all tasks."""
    remote = files.home.at_once > 1
    own = engine or LocalEngine(options[opt.REQUESTS] or (files.home.at_once if remote else None))
    if engine is None:
        return Checker(files, options[opt.CHECK]), own
    at_once = (options[opt.REQUESTS] or files.home.at_once) // engine.parallelism
    return Checker(files, options[opt.CHECK], max(1, at_once)), own


@dataclass(frozen=True, slots=True)
class _Repair:
    """A checked table. `findings` are those of all snapshots that were checked, `of_head` those of the branch's head,
    `lost` what is said of them. `in_copy` are places in the copy by path."""

    operations: TableOperations
    loaded: Loaded
    branch: str
    head: Snapshot | None
    options: Options
    checker: Checker
    findings: Findings
    of_head: Findings
    lost: tuple[LostFile, ...]
    in_copy: Mapping[str, str]

    def result(self, dry_run: bool) -> RepairResult:
        """The findings as a result in which nothing is repaired."""
        rows = sum(file.record_count for file, _ in self.of_head.data.values())
        return RepairResult(self.lost, self._kept(), rows, self.findings.checked, dry_run)

    def commit(self) -> RepairResult:
        """Commit a snapshot of the head without what it has lost."""
        self._refuse()
        planned = self.result(False)
        if self.of_head.is_whole:
            return planned
        policy = self.options[opt.LOST_DELETES]
        target = self.options[opt.BRANCH]
        change = WithoutLost(self.of_head, self.checker, policy == opt.DROP_ROWS, target)
        settings = CommitOptions(
            target or self.branch, properties=self.options.raw, start=self.branch if target else ""
        )
        try:
            done = commit_snapshot(self.operations, change, settings, self.loaded)
        except NothingLostError:
            return replace(planned, notes=("nothing that is lost is named any more: no snapshot was committed",))
        return replace(planned, rows=change.rows, removed=tuple(sorted(change.removed)), instants=(done.instant,))

    def _kept(self) -> tuple[Skipped, ...]:
        """The lost or unchecked files that the repaired table still names."""
        kept = [Skipped(path, f"it could not be checked: {why}") for path, why in self.findings.unchecked.items()]
        others = self.findings.paths.keys() - self.of_head.paths.keys()
        named = {file.path: file for file in self.lost}
        for path in sorted(others):
            ids = ", ".join(named[path].snapshots)
            kept.append(Skipped(path, f"only older snapshots name it: expire or roll back {ids}"))
        if self.options[opt.LOST_DELETES] == opt.REFUSE:
            why = f"rows that it deletes would come back: set {opt.LOST_DELETES.key}"
            kept += [Skipped(path, why) for path in _lost_deletes(self.of_head) if path not in self.in_copy]
        return tuple(kept)

    def _refuse(self) -> None:
        """CorruptError for what needs a decision of the caller."""
        head, name = self.of_head, self.operations.name
        if head.lists:
            ((path, (snapshot, why)),) = head.lists.items()
            back = f"table.rollback({snapshot.parent_id})" if snapshot.parent_id else "a kept copy"
            raise CorruptError(
                "the manifest list of the branch's head is lost",
                table=name,
                instant=str(snapshot.snapshot_id),
                file=path,
                why=why,
                todo=f"Nobody knows what this snapshot holds. Go back with {back}, or restore with {opt.COPY.key}",
            )
        share = share_lost(head)
        if share > self.options[opt.MOST_LOST]:
            raise CorruptError(
                f"{share} % of {counted(head.checked, 'file')} are lost, so nothing was changed",
                table=name,
                why=next(iter(self.lost)).reason,
                todo=f"Look whether all places are mounted. If the files are really lost, set {opt.MOST_LOST.key}=100",
            )
        deletes, policy = _lost_deletes(head), self.options[opt.LOST_DELETES]
        if deletes and policy == opt.REFUSE:
            holds = counted(len(deletes), "lost file holds", "lost files hold")
            raise CorruptError(
                f"{holds} deletes, so rows that were deleted would come back",
                table=name,
                file=deletes[0],
                todo=f"Set {opt.LOST_DELETES.key} to {opt.DROP_ROWS}, which removes the data files they apply to, or "
                f"to {opt.RETURN_ROWS}",
            )
        if policy == opt.DROP_ROWS and any(manifest.content for manifest in head.manifests):
            raise CorruptError(
                "a manifest of deletes is lost, and nobody knows to which data files these apply",
                table=name,
                file=next(m.path for m in head.manifests if m.content),
                todo=f"Restore it with {opt.COPY.key}, roll back, or set {opt.LOST_DELETES.key}={opt.RETURN_ROWS}",
            )


def _lost_deletes(findings: Findings) -> list[str]:
    """The paths of lost delete files that still have data to apply to, and of lost manifests of deletes."""
    of_lost_data = findings.data
    deletes = [
        path for (path, _), (delete, _) in findings.deletes.items() if delete.referenced_data_file not in of_lost_data
    ]
    return [*dict.fromkeys([*(m.path for m in findings.manifests if m.content), *deletes])]
