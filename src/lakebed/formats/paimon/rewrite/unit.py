"""What one compaction of a bucket takes (a unit), and what becomes of each of its files (actions). Pure.

Rules: Paimon's CompactStrategy.pickFullCompaction, MergeTreeCompactManager, MergeTreeCompactTask and the upgrade
strategies of its ChangelogMergeTreeRewriter. A file that overlaps no other only changes its level, unless it is small
and lies beside files that are rewritten anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from lakebed.formats.paimon import compaction_options as opt
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.definition import check_vectors
from lakebed.formats.paimon.merge.lookup import Lookup
from lakebed.formats.paimon.options import CHANGELOG_PRODUCER
from lakebed.formats.paimon.read.sections import sections
from lakebed.formats.paimon.rewrite.levels import SortedRun, number_of_levels, sorted_runs
from lakebed.formats.paimon.rewrite.universal import UniversalPicker
from lakebed.formats.paimon.write.formats import FileFormat
from lakebed.formats.paimon.write.options import WriteOptions

Section = tuple[DataFileMeta, ...]
"""Files whose keys overlap. The keys of two sections do not."""
HasExpired = Callable[[DataFileMeta], bool]
"""Whether a file has rows that expired."""


@dataclass(frozen=True, slots=True)
class CompactionUnit:
    """Files of a bucket that a compaction takes to `output_level`, and the `reason`.

    `older` are the files of higher levels, which stay. `top` is the highest level of the bucket. With `each_alone`
    every file is rewritten for itself.
    """

    files: tuple[DataFileMeta, ...]
    older: tuple[DataFileMeta, ...]
    output_level: int
    top: int
    drops_deletes: bool
    reason: str
    each_alone: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """Sections that become new files of the unit's level together (`rewrites`), or files that only change their level.

    `notes_changes`: the rows are compared with what the key had before, for the changelog or because older rows count.
    """

    sections: tuple[Section, ...]
    rewrites: bool
    drops_deletes: bool
    notes_changes: bool

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """The files of all sections."""
        return tuple(file for section in self.sections for file in section)


@dataclass(frozen=True, slots=True)
class CompactionRules:
    """The compaction rules of a table with a primary key. Picklable."""

    schema: TableSchema
    options: WriteOptions
    lookup: Lookup

    @classmethod
    def of(cls, schema: TableSchema, options: WriteOptions) -> CompactionRules:
        """The rules of a table. OptionError for options that exclude each other."""
        check_vectors(options.table)
        return cls(schema, options, Lookup.of(options.table))

    @property
    def full_changelog(self) -> bool:
        """Whether compactions into the highest level write the changelog."""
        producer: str = self.options.table[CHANGELOG_PRODUCER]
        return producer == "full-compaction"

    @property
    def needs_older_values(self) -> bool:
        """Whether a compaction needs more of older rows than that they are there."""
        if self.lookup.first_row:
            return False
        return (
            self.lookup.changelog
            or self.lookup.forced
            or self.options.merge_engine != "deduplicate"
            or bool(self.options.sequence_fields)
        )

    @property
    def small(self) -> int:
        """Files of fewer bytes are rewritten where others are."""
        return self.options.format.target_size // 10 * 7

    # ---- units ----

    def full(
        self, files: Sequence[DataFileMeta], vectors: Collection[str], expired: HasExpired
    ) -> CompactionUnit | None:
        """The whole bucket, None when its files are as a full compaction would leave them.

        `vectors` names the files with a deletion vector.
        """
        if not files:
            return None
        top = number_of_levels(self.options.table, files) - 1
        if any(file.level != top for file in files):
            return CompactionUnit(tuple(files), (), top, top, True, "full compaction")
        forced = self.options.table[opt.FORCE_REWRITE]
        worn = tuple(file for file in files if forced or file.file_name in vectors or expired(file))
        if not worn:
            return None
        others = tuple(file for file in files if file not in worn)
        reason = "deleted or expired rows" if not forced else opt.FORCE_REWRITE.key
        return CompactionUnit(worn, others, top, top, True, reason, each_alone=True)

    def picked(self, files: Sequence[DataFileMeta], now_ms: int) -> CompactionUnit | None:
        """What universal compaction takes of a bucket, None for nothing.

        Of a key's rows above level 0 the lowest one counts where compactions look rows up. So a bucket goes whole where
        a higher level may have newer rows than those that are taken: of two writers at once, the one that drew its
        sequence numbers first may commit last. Paimon's own compaction does not ask, and brings old rows back then.
        """
        runs, levels = sorted_runs(files), number_of_levels(self.options.table, files)
        top = levels - 1
        newest = max((file.creation_time or 0 for file in files if file.level == top), default=None)
        picker = UniversalPicker.of(self.options.table, self.lookup.needed)
        pick = picker.pick(levels, runs, None if newest is None else now_ms - newest)
        if pick is None:
            return None
        taken = tuple(file for run in runs[: pick.runs] for file in run.files)
        if self.lookup.merges_once and _has_newer(runs[pick.runs :], taken):
            return CompactionUnit(tuple(files), (), top, top, True, "rows that a higher level has are newer")
        if len(taken) == 1 and taken[0].level == pick.output_level:
            return None
        highest = max(run.level for run in runs)
        older = tuple(file for run in runs[pick.runs :] for file in run.files)
        drops = pick.output_level != 0 and (pick.output_level >= highest or self.lookup.vectors)
        return CompactionUnit(taken, older, pick.output_level, top, drops, pick.reason)

    # ---- actions ----

    def actions(self, unit: CompactionUnit, expired: HasExpired) -> list[Action]:
        """What becomes of the files of a unit. A file that is in no action stays as it is."""
        if unit.each_alone:
            return [self._rewrite(unit, [(file,)]) for file in unit.files]
        types = [field.type for field in self.schema.project(self.schema.trimmed_primary_keys)]
        actions: list[Action] = []
        waiting: list[Section] = []

        def rewrite_waiting() -> None:
            if len(waiting) == 1 and len(waiting[0]) == 1:
                actions.extend(self._upgrade(unit, waiting[0][0], expired))
            elif waiting:
                actions.append(self._rewrite(unit, waiting))
            waiting.clear()

        for section in sections(unit.files, types):
            if len(section) > 1 or section[0].file_size < self.small:
                waiting.append(section)
            else:
                rewrite_waiting()
                actions.extend(self._upgrade(unit, section[0], expired))
        rewrite_waiting()
        return actions

    def _rewrite(self, unit: CompactionUnit, sections_: Sequence[Section]) -> Action:
        if self.full_changelog:
            notes = unit.output_level == unit.top
        else:
            from_0 = any(file.level == 0 for section in sections_ for file in section)
            notes = self.lookup.needed and unit.output_level != 0 and from_0
        return Action(tuple(sections_), True, unit.drops_deletes, notes)

    def _upgrade(self, unit: CompactionUnit, file: DataFileMeta, expired: HasExpired) -> list[Action]:
        """The action for a file that overlaps no other."""
        has_deletes = file.delete_row_count is None or file.delete_row_count > 0
        forced = self.options.table[opt.FORCE_REWRITE]
        if (unit.output_level == unit.top and has_deletes) or forced or expired(file):
            return [self._rewrite(unit, [(file,)])]
        if file.level == unit.output_level:
            return []
        section = ((file,),)
        if self.full_changelog:
            return [Action(section, False, False, unit.output_level == unit.top)]
        if not self.lookup.needed or file.level != 0:
            return [Action(section, False, False, False)]
        return [Action(section, self._must_rewrite(unit, file, has_deletes), self.lookup.vectors, True)]

    def _must_rewrite(self, unit: CompactionUnit, file: DataFileMeta, has_deletes: bool) -> bool:
        """Whether a file of level 0 cannot stay as it is in a higher level where older rows are looked up."""
        if self._format(file.level) != self._format(unit.output_level):
            return True
        if self.lookup.vectors and has_deletes:
            return True
        if unit.output_level == unit.top:
            return False
        return self.options.merge_engine != "deduplicate" or bool(self.options.sequence_fields)

    def _format(self, level: int) -> str:
        return FileFormat.of(self.options.table, True, level).name


def _has_newer(others: Sequence[SortedRun], taken: Sequence[DataFileMeta]) -> bool:
    """Whether runs above level 0 reach to the first sequence number of files that are taken, or beyond."""
    first = min(file.min_sequence_number for file in taken)
    return any(file.max_sequence_number >= first for run in others if run.level for file in run.files)
