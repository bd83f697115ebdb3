"""One archival of a Hudi timeline from beginning to end: lock, plan, write, delete, tidy.

A run first completes what a crash left behind. It then writes instants to the archive and publishes them, and deletes
their state files only after that. Last it merges small archive files and drops old history. A run that is killed
anywhere can be resumed by the next one: an instant is in the active timeline, in the archive, or in both, and readers
take it once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from lakebed.errors import CommitConflictError, CorruptError
from lakebed.formats.hudi.archive import merge_v1
from lakebed.formats.hudi.archive.bounds import Bounds, check_given, described, effective_bounds, with_properties
from lakebed.formats.hudi.archive.compact_lsm import clean_up, compact
from lakebed.formats.hudi.archive.delete import delete_instants, delete_leftovers
from lakebed.formats.hudi.archive.encode import Encoded, records, rows
from lakebed.formats.hudi.archive.evidence import gather
from lakebed.formats.hudi.archive.lock import LEASES, archiver_lock
from lakebed.formats.hudi.archive.options import (
    ARCHIVAL_BATCH,
    ARCHIVE_STRICT,
    BATCH_BYTES,
    RETAIN_TIME,
    TIMELINE_COMPACTION_BATCH,
)
from lakebed.formats.hudi.archive.plan import Key, Plan, plan_archival
from lakebed.formats.hudi.archive.retention import Retention, apply_retention, plan_retention
from lakebed.formats.hudi.archive.state_files import STATES, ActiveInstant, load_active
from lakebed.formats.hudi.archive.write_lsm import LsmWriter, archived_keys
from lakebed.formats.hudi.archive.write_v1 import (
    State,
    V1Writer,
    archive_files_of,
    archived_states,
    folder_of,
    number_after,
)
from lakebed.formats.hudi.commit.exclusive import StillHeld
from lakebed.formats.hudi.config import TableConfig, load_config
from lakebed.formats.hudi.layout import COMPLETES_AS
from lakebed.formats.hudi.timeline.archive_manifest import History, load_history
from lakebed.formats.hudi.timeline.archived import ArchivedTimeline
from lakebed.kernel import clock
from lakebed.kernel.again import looks_again
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.engine import Engine
from lakebed.kernel.files import FileInfo, Store
from lakebed.kernel.files.age import certain_now
from lakebed.kernel.garbage import no_cycles
from lakebed.kernel.options import Options
from lakebed.kernel.scratch import SCRATCH_DIR, Scratch
from lakebed.model.upkeep import ArchiveResult, Blocker


def archive(
    store: Store,
    given: Mapping[str, object],
    engine: Engine,
    *,
    dry_run: bool = False,
    storage: Mapping[str, str],
    config: TableConfig | None = None,
) -> ArchiveResult:
    """Move old instants from the active to the archived timeline, and say which stay and why.

    `storage` holds the options that open stores, `config` the table's settings where they were just read. Raises
    OptionError before anything is read, CorruptError in strict mode for an instant file that cannot be read (nothing
    was deleted), and CommitConflictError when another archiver is at work.
    """
    asked = check_given(given)
    run = _Run.of(store, config or load_config(store), asked, engine, storage)
    if dry_run:
        planned = run.plan()
        return _Outcome(
            planned.bounds, planned.plan, planned.plan.archived, retention=run.plan_retention(dry_run=True)
        ).result(run, dry_run=True)
    with archiver_lock(store, run.options) as held:
        return run.archive(held)


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
    def of(cls, store: Store, config: TableConfig, asked: Options, engine: Engine, storage: Mapping[str, str]) -> _Run:
        options = with_properties(asked, config)
        return cls(store, config, asked, options, engine, Scratch(options[SCRATCH_DIR]), storage)

    @property
    def folder(self) -> str:
        return folder_of(self.config.archive_folders)

    @looks_again
    def plan(self) -> _Planned:
        with no_cycles():
            acts: list[Callable[[], Any]] = [
                lambda: gather(self.store, self.config, self.options, dict(self.storage)),
                self._archive,
            ]
            evidence, archive = self.store.together(lambda act: act(), acts)
            bounds = effective_bounds(self.options, evidence.instants, self.config)
            states, already = self._archived_already(archive, evidence.instants)
            return _Planned(bounds, plan_archival(evidence, self.options, bounds, already), archive, states)

    def _archive(self) -> _Archive:
        """The archive's files before the run."""
        if self.config.layout >= 2:
            return _Archive(load_history(self.store, self.folder))
        listing = self.store.list(self.folder)
        return _Archive(files=tuple(archive_files_of(listing)), is_merging=merge_v1.PLAN in listing.names)

    def _archived_already(
        self, archive: _Archive, instants: Sequence[ActiveInstant]
    ) -> tuple[frozenset[State], frozenset[Key]]:
        """Active instants that the archive holds, and their states there in layout 1: a run wrote them and died before
        it deleted them. Only what was archived last can hold such instants."""
        if self.config.layout < 2:
            states = archived_states(self.store, archive.files, instants, self.scratch)
            completed = [(time, action) for time, action, state in states if state == "completed"]
            keys = frozenset((time, COMPLETES_AS.get(action, action)) for time, action in completed)
            return frozenset(states), keys
        newest = replace(archive.history, files=tuple(f for f in archive.history.files if f.level == 0)[-1:])
        return frozenset(), frozenset(archived_keys(self.store, self.folder, newest, instants))

    @looks_again
    def plan_retention(self, dry_run: bool = False) -> Retention:
        by_age = self.options[RETAIN_TIME] is not None and not dry_run
        now = certain_now(self.store, LEASES) if by_age else clock.now()
        archived = ArchivedTimeline(self.store, self.config, self.scratch)
        return plan_retention(self.store, self.config, self.options, archived, self.scratch, now)

    def archive(self, held: StillHeld) -> ArchiveResult:
        planned = self.plan()
        if planned.archive.is_merging:
            merge_v1.recover(self.store, self.folder, self.scratch, held)
            planned = self.plan()
        bounds, plan = planned.bounds, planned.plan
        self._check_empty(plan)
        try:
            archived, left, history = self._write(planned, held)
        except FileNotFoundError as error:
            raise CommitConflictError(
                "an instant's file vanished while it was being archived",
                table=self.store.location,
                why=str(error),
                todo="Another archiver or a rollback is at work; nothing was deleted. Archive again when it is done",
            ) from error
        delete_instants(self.store, self._all_files(archived), held)
        outcome = _Outcome(bounds, plan, archived, left)

        def retain() -> None:
            nonlocal outcome
            outcome = replace(outcome, retention=self._retain(held))

        # The instants are archived: whatever fails from here on is left to the next run.
        notes = [
            *afterwards("leftovers of archived instants stay", lambda: delete_leftovers(self.store, outcome.stays)),
            *afterwards("small archive files stay apart", lambda: self._tidy(history, held)),
            *afterwards("archived instants past their time stay", retain),
        ]
        return replace(outcome, notes=notes).result(self, dry_run=False)

    def _retain(self, held: StillHeld) -> Retention:
        planned = self.plan_retention()
        apply_retention(self.store, self.config, self.options, planned, self.scratch, held)
        return planned

    def _all_files(self, archived: Sequence[ActiveInstant]) -> Sequence[ActiveInstant]:
        """The instants with all of their state files. A listing taken while a writer works can show an instant's last
        file but not its first ones; if these were left behind, the instant would look pending."""
        if all(len(instant.files) == len(STATES) for instant in archived):
            return archived
        now = {(i.time, i.action): i for i in load_active(self.store, self.config.timeline_folder)}
        return [now.get((instant.time, instant.action), instant) for instant in archived]

    def _check_empty(self, plan: Plan) -> None:
        """In strict mode, raise CorruptError for an empty completed file before anything is written."""
        empty = next((instant for instant in plan.archived if instant.empty), None)
        if empty is not None and self.options[ARCHIVE_STRICT]:
            raise CorruptError(
                f"the completed file of {empty.action} {empty.time} is empty",
                table=self.store.location,
                instant=empty.time,
                file=empty.last.path,
                why="a crash left it empty, and its metadata is lost",
                todo="Nothing was archived. Restore the file from a copy, roll the instant back with Hudi's own "
                f"engine, or set {ARCHIVE_STRICT.key}=false to leave it where it is",
            )

    def _write(self, planned: _Planned, held: StillHeld) -> _Written:
        """Write and publish the plan's instants."""
        if not planned.plan.archived:
            return _Written([], [])
        return self._write_v1(planned, held) if self.config.layout < 2 else self._write_lsm(planned, held)

    def _write_v1(self, planned: _Planned, held: StillHeld) -> _Written:
        # The number comes from the listing that the plan rests on: who archived meanwhile has taken it.
        number = number_after(planned.archive.files)
        writer = V1Writer(
            self.store,
            self.folder,
            self.options[ARCHIVAL_BATCH],
            self.options[BATCH_BYTES],
            held,
            planned.states,
            number,
        )
        readable = _Readable(self.options[ARCHIVE_STRICT])
        for wave in records(self.store, planned.plan.archived, self.engine, self.options[BATCH_BYTES]):
            for encoded in wave:
                if readable.takes(encoded) and encoded.value is not None:
                    writer.add(encoded.value)
        writer.flush()
        writer.check_stands()
        return _Written(readable.archived, readable.left)

    def _write_lsm(self, planned: _Planned, held: StillHeld) -> _Written:
        plan, history = planned.plan, planned.archive.history
        written = archived_keys(self.store, self.folder, history, plan.archived)
        new = [instant for instant in plan.archived if (instant.time, instant.action) not in written]
        readable = _Readable(self.options[ARCHIVE_STRICT])
        if new:
            writer = LsmWriter(self.store, self.folder, history, held, new[0].time, new[-1].time)
            try:
                for wave in rows(self.store, new, self.engine, self.options[BATCH_BYTES]):
                    batch = [row.value for row in wave if readable.takes(row) and row.value is not None]
                    wave.clear()
                    writer.add(batch)
            except BaseException as error:
                writer.abort(error)
                raise
            history = writer.publish()
        before = [instant for instant in plan.archived if (instant.time, instant.action) in written]
        archived = sorted([*before, *readable.archived], key=lambda i: (i.time, i.action))
        return _Written(archived, readable.left, history)

    def _tidy(self, history: History, held: StillHeld) -> None:
        """Keep the number of archive files small. `history` is what was published, nothing where nothing was."""
        if self.config.layout < 2:
            merge_v1.merge_small(self.store, self.folder, self.options, held)
        elif history.version:
            _, levels = compact(self.store, self.folder, history, self.options[TIMELINE_COMPACTION_BATCH], held)
            clean_up(self.store, self.folder, levels, held)


class _Archive(NamedTuple):
    """The archive before a run: its manifest in layout 2; in layout 1 its files, and whether a merge of them began and
    did not end."""

    history: History = History(0)
    files: tuple[FileInfo, ...] = ()
    is_merging: bool = False


@dataclass(frozen=True, slots=True)
class _Planned:
    """What a run is going to do, and the archive that this rests on. `states` are those of active instants that an
    archive of layout 1 holds already."""

    bounds: Bounds
    plan: Plan
    archive: _Archive
    states: frozenset[State]


class _Written(NamedTuple):
    """The instants that are archived now, why others are not, and the archive that was published in layout 2."""

    archived: list[ActiveInstant]
    left: list[Blocker]
    history: History = History(0)


class _Readable:
    """Decides, instant by instant in their order, which are archived and which stay since their files cannot be read.

    Strict mode raises the first error. Lenient mode leaves the instant where it is. It leaves every later commit too:
    if those were archived, readers would no longer see them behind the one that stays.
    """

    def __init__(self, strict: bool) -> None:
        self.archived: list[ActiveInstant] = []
        self.left: list[Blocker] = []
        self._strict = strict
        self._behind = ""

    def takes(self, encoded: Encoded[Any]) -> bool:
        """Whether the next instant is archived; the reason is noted where it is not."""
        instant = encoded.instant
        if encoded.error is not None:
            if self._strict:
                raise encoded.error
            remedy = "Restore the file from a copy, or roll the instant back (Hudi: call rollback_to_instant)"
            self.left.append(Blocker(instant.time, f"{encoded.error.what}: {encoded.error.why}", remedy))
            if instant.writes:
                self._behind = instant.time
            return False
        if self._behind and instant.writes:
            reason = f"commit {self._behind} before it cannot be read, and a gap would hide this one from readers"
            self.left.append(Blocker(instant.time, reason, f"Free {self._behind} first"))
            return False
        self.archived.append(instant)
        return True


_NOTHING_DROPPED = Retention()


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a run decided and did: the bounds, the plan, the instants that it archived, and why others stay."""

    bounds: Bounds
    plan: Plan
    archived: Sequence[ActiveInstant]
    left: Sequence[Blocker] = ()
    """Why instants of the plan were left: their files cannot be read."""
    retention: Retention = _NOTHING_DROPPED
    notes: Sequence[str] = ()

    @property
    def stays(self) -> list[ActiveInstant]:
        """The instants that the active timeline keeps."""
        gone = {(instant.time, instant.action) for instant in self.archived}
        return [i for i in (*self.plan.archived, *self.plan.kept) if (i.time, i.action) not in gone]

    def result(self, run: _Run, dry_run: bool) -> ArchiveResult:
        """The result that the caller gets."""
        blockers = [*self.plan.blockers, *self.left, *self.retention.blockers]
        return ArchiveResult(
            archived=tuple(sorted({instant.time for instant in self.archived})),
            kept=tuple(sorted({instant.time for instant in self.stays})),
            blockers=tuple(sorted(blockers, key=lambda blocker: blocker.instant)),
            settings=described(run.options, run.asked, self.bounds),
            dry_run=dry_run,
            dropped=tuple(sorted({instant.time for instant in self.retention.dropped})),
            dropped_files=self.retention.files,
            notes=tuple(self.notes),
        )
