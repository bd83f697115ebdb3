"""The archival of a Hudi timeline from beginning to end: lock, plan, write, delete, tidy.

Order: what a crash left is ended first; then instants are written and published; only then their state files are
deleted; then small archive files are merged and old history is dropped. Killed anywhere, the next run goes on: an
instant is in the active timeline, in the archive, or in both, where readers take it once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakebed.errors import CommitConflictError, CorruptError
from lakebed.formats.hudi.archive import merge_v1
from lakebed.formats.hudi.archive.bounds import Kept, check_given, described, kept_bounds, with_properties
from lakebed.formats.hudi.archive.compact_lsm import clean_up, compact
from lakebed.formats.hudi.archive.delete import delete_instants, delete_leftovers
from lakebed.formats.hudi.archive.encode import Encoded, records, rows
from lakebed.formats.hudi.archive.evidence import gather
from lakebed.formats.hudi.archive.lock import LEASES, StillHeld, archiver_lock
from lakebed.formats.hudi.archive.options import (
    ARCHIVAL_BATCH,
    ARCHIVE_STRICT,
    BATCH_BYTES,
    RETAIN_TIME,
    TIMELINE_COMPACTION_BATCH,
)
from lakebed.formats.hudi.archive.plan import Key, Plan, plan_archival
from lakebed.formats.hudi.archive.retention import Retention, apply_retention, plan_retention
from lakebed.formats.hudi.archive.state_files import ActiveInstant, load_active
from lakebed.formats.hudi.archive.write_lsm import LsmWriter, archived_keys
from lakebed.formats.hudi.archive.write_v1 import V1Writer, archived_states, folder_of
from lakebed.formats.hudi.config import TableConfig, load_config
from lakebed.formats.hudi.layout import COMPLETES_AS
from lakebed.formats.hudi.timeline.archive_manifest import load_history
from lakebed.formats.hudi.timeline.archived import ArchivedTimeline
from lakebed.kernel import clock
from lakebed.kernel.again import looks_again
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.engine import Engine
from lakebed.kernel.files import Store
from lakebed.kernel.files.age import certain_now
from lakebed.kernel.garbage import no_cycles
from lakebed.kernel.options import Options
from lakebed.kernel.scratch import SCRATCH_DIR, Scratch
from lakebed.model.upkeep import ArchiveResult, Blocker


def archive(
    store: Store, given: Mapping[str, object], engine: Engine, *, dry_run: bool = False, storage: Mapping[str, str]
) -> ArchiveResult:
    """Moves what may go from the active to the archived timeline, and says what stays and why.

    `storage` are the options that open stores. Raises OptionError before anything is read, CorruptError in strict mode
    for an instant file that cannot be read (nothing was deleted), CommitConflictError when another archiver is at work.
    """
    asked = check_given(given)
    run = _Run.of(store, asked, engine, storage)
    if dry_run:
        kept, plan = run.plan()
        retention = run.plan_retention(dry_run=True)
        return _result(run, kept, plan, plan.archived, [], retention, dry_run=True)
    with archiver_lock(store, run.options) as held:
        return run.archive(held)


_STATES = 3
"""The state files of an instant: requested, inflight, completed."""


@dataclass(frozen=True, slots=True)
class _Run:
    store: Store
    config: TableConfig
    asked: Options
    options: Options
    engine: Engine
    scratch: Scratch
    storage: Mapping[str, str]

    @classmethod
    def of(cls, store: Store, asked: Options, engine: Engine, storage: Mapping[str, str]) -> _Run:
        config = load_config(store)
        options = with_properties(asked, config)
        return cls(store, config, asked, options, engine, Scratch(options[SCRATCH_DIR]), storage)

    @property
    def folder(self) -> str:
        return folder_of(self.config.archive_folders)

    @looks_again
    def plan(self) -> tuple[Kept, Plan]:
        with no_cycles():
            evidence = gather(self.store, self.config, self.options, dict(self.storage))
            kept = kept_bounds(self.options, evidence.instants, self.config)
            already = self.archived_already(evidence.instants)
            return kept, plan_archival(evidence, self.options, kept, already)

    def archived_already(self, instants: Sequence[ActiveInstant]) -> frozenset[Key]:
        """Active instants that a run wrote and died before it deleted them: only what was archived last can hold
        such."""
        if self.config.layout < 2:
            states = archived_states(self.store, self.folder, instants, self.scratch)
            done = {(time, COMPLETES_AS.get(action, action)) for time, action, state in states if state == "completed"}
            return frozenset(done)
        history = load_history(self.store, self.folder)
        newest = [file for file in history.files if file.level == 0][-1:]
        return frozenset(archived_keys(self.store, self.folder, replace(history, files=tuple(newest)), instants))

    @looks_again
    def plan_retention(self, dry_run: bool = False) -> Retention:
        by_age = self.options[RETAIN_TIME] is not None and not dry_run
        now = certain_now(self.store, LEASES) if by_age else clock.now()
        archived = ArchivedTimeline(self.store, self.config, self.scratch)
        return plan_retention(self.store, self.config, self.options, archived, self.scratch, now)

    def archive(self, held: StillHeld) -> ArchiveResult:
        if self.config.layout < 2:
            merge_v1.recover(self.store, self.folder, self.scratch, held)
        kept, plan = self.plan()
        self._check_empty(plan)
        try:
            archived, left = self._write(plan, held)
        except FileNotFoundError as error:
            raise CommitConflictError(
                "an instant's file vanished while it was being archived",
                table=self.store.location,
                why=str(error),
                todo="Another archiver or a rollback is at work; nothing was deleted. Archive again when it is done",
            ) from error
        delete_instants(self.store, self._all_files(archived), held)
        retention = Retention()

        def retain() -> None:
            nonlocal retention
            planned = self.plan_retention()
            apply_retention(self.store, self.config, self.options, planned, self.scratch, held)
            retention = planned

        gone = {(instant.time, instant.action) for instant in archived}
        stay = [i for i in (*plan.archived, *plan.kept) if (i.time, i.action) not in gone]
        # Instants are archived: what fails from here on is done by the next run.
        notes = [
            *afterwards("leftovers of archived instants stay", lambda: delete_leftovers(self.store, stay)),
            *afterwards("small archive files stay apart", lambda: self._tidy(bool(archived), held)),
            *afterwards("archived instants past their time stay", retain),
        ]
        return _result(self, kept, plan, archived, left, retention, dry_run=False, notes=notes)

    def _all_files(self, archived: Sequence[ActiveInstant]) -> Sequence[ActiveInstant]:
        """The instants with all of their state files. A listing beside a writer can show an instant's last file and
        not its first ones: left behind, they would make it look pending."""
        if all(len(instant.files) == _STATES for instant in archived):
            return archived
        now = {(i.time, i.action): i for i in load_active(self.store, self.config.timeline_folder)}
        return [now.get((instant.time, instant.action), instant) for instant in archived]

    def _check_empty(self, plan: Plan) -> None:
        """Strict mode stops at an empty file before anything is written."""
        empty = next((instant for instant in plan.archived if instant.empty), None)
        if empty is not None and self.options[ARCHIVE_STRICT]:
            raise CorruptError(
                f"the completed file of {empty.action} {empty.time} is empty",
                table=self.store.location,
                instant=empty.time,
                file=empty.last.path,
                why="a crash left it so; its metadata is lost",
                todo="Nothing was archived. Restore the file from a copy, roll the instant back with Hudi's own "
                f"engine, or set {ARCHIVE_STRICT.key}=false to leave it where it is",
            )

    def _write(self, plan: Plan, held: StillHeld) -> tuple[list[ActiveInstant], list[Blocker]]:
        """Writes and publishes; the instants that are archived now, and why others of the plan are not."""
        if not plan.archived:
            return [], []
        return self._write_v1(plan, held) if self.config.layout < 2 else self._write_lsm(plan, held)

    def _write_v1(self, plan: Plan, held: StillHeld) -> tuple[list[ActiveInstant], list[Blocker]]:
        known = archived_states(self.store, self.folder, plan.archived, self.scratch)
        writer = V1Writer(
            self.store, self.folder, self.options[ARCHIVAL_BATCH], self.options[BATCH_BYTES], held, frozenset(known)
        )
        sorter = _Sorter(self.options[ARCHIVE_STRICT])
        for wave in records(self.store, plan.archived, self.engine, self.options[BATCH_BYTES]):
            for one in wave:
                if sorter.takes(one) and one.value is not None:
                    writer.add(one.value)
        writer.flush()
        writer.check_stands()
        return sorter.archived, sorter.left

    def _write_lsm(self, plan: Plan, held: StillHeld) -> tuple[list[ActiveInstant], list[Blocker]]:
        history = load_history(self.store, self.folder)
        known = archived_keys(self.store, self.folder, history, plan.archived)
        new = [instant for instant in plan.archived if (instant.time, instant.action) not in known]
        sorter = _Sorter(self.options[ARCHIVE_STRICT])
        if new:
            writer = LsmWriter(self.store, self.folder, history, held, new[0].time, new[-1].time)
            try:
                for wave in rows(self.store, new, self.engine, self.options[BATCH_BYTES]):
                    taken = [one.value for one in wave if sorter.takes(one) and one.value is not None]
                    wave.clear()
                    writer.add(taken)
            except BaseException as error:
                writer.abort(error)
                raise
            writer.publish()
        before = [instant for instant in plan.archived if (instant.time, instant.action) in known]
        return sorted([*before, *sorter.archived], key=lambda i: (i.time, i.action)), sorter.left

    def _tidy(self, wrote: bool, held: StillHeld) -> None:
        """Keeps the archive small in files."""
        if self.config.layout < 2:
            merge_v1.merge_small(self.store, self.folder, self.options, held)
        elif wrote:
            history = load_history(self.store, self.folder)
            _, levels = compact(self.store, self.folder, history, self.options[TIMELINE_COMPACTION_BATCH], held)
            clean_up(self.store, self.folder, levels, held)


class _Sorter:
    """Takes encoded instants in order and parts those that are archived from those that stay.

    Strict mode raises the first error. Lenient mode leaves the instant; after a commit that cannot be read no later
    commit goes, since readers would miss those that lie between it and the rest of the timeline.
    """

    def __init__(self, strict: bool) -> None:
        self.archived: list[ActiveInstant] = []
        self.left: list[Blocker] = []
        self._strict = strict
        self._behind = ""

    def takes(self, one: Encoded[Any]) -> bool:
        instant = one.instant
        if one.error is not None:
            if self._strict:
                raise one.error
            remedy = "Restore the file from a copy, or roll the instant back (Hudi: call rollback_to_instant)"
            self.left.append(Blocker(instant.time, f"{one.error.what}: {one.error.why}", remedy))
            if instant.writes:
                self._behind = instant.time
            return False
        if self._behind and instant.writes:
            reason = f"commit {self._behind} before it cannot be read, and a gap would hide this one from readers"
            self.left.append(Blocker(instant.time, reason, f"Free {self._behind} first"))
            return False
        self.archived.append(instant)
        return True


def _result(
    run: _Run,
    kept: Kept,
    plan: Plan,
    archived: Sequence[ActiveInstant],
    left: Sequence[Blocker],
    retention: Retention,
    dry_run: bool,
    notes: Sequence[str] = (),
) -> ArchiveResult:
    gone = {(instant.time, instant.action) for instant in archived}
    stay = {i.time for i in (*plan.archived, *plan.kept) if (i.time, i.action) not in gone}
    blockers = sorted([*plan.blockers, *left, *retention.blockers], key=lambda blocker: blocker.instant)
    return ArchiveResult(
        archived=tuple(sorted({instant.time for instant in archived})),
        kept=tuple(sorted(stay)),
        blockers=tuple(blockers),
        settings=described(run.options, run.asked, kept),
        dry_run=dry_run,
        dropped=tuple(sorted({instant.time for instant in retention.dropped})),
        dropped_files=retention.files,
        notes=tuple(notes),
    )
