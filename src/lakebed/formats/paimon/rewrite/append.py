"""Which files of a table without a primary key are compacted together.

Rules: Paimon's AppendCompactCoordinator for tables without buckets. For fixed buckets BucketedAppendCompactManager, as
releases from 1.4 have it: 1.3.1 takes a file for small that is just below the target size, and rewrites it each time.
All of it is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from lakebed.formats.paimon import compaction_options as compaction
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.read.split import DeletionFile
from lakebed.kernel.options import Options

_COMPACT_AGE, _REMOVE_AGE = 5, 10
"""After so many rounds without a task, what waits is compacted together, or forgotten."""
_FULL_COMPACT_FILES = 3


@dataclass(frozen=True, slots=True)
class AppendRules:
    """What makes files worth a compaction.

    Sizes are bytes: `target` of a full file, below which a file is `small`, and what opening a file costs. There must
    be `min_files` small ones. A file is rewritten too when more than `deleted_ratio` of its rows are deleted.
    """

    target: int
    small: int
    open_cost: int
    min_files: int
    deleted_ratio: float = 0.2
    rewrites_all: bool = False

    @classmethod
    def of(cls, options: Options, target: int) -> Self:
        """The rules of a table, by its options."""
        return cls(
            target,
            target // 10 * 7,
            options[opt.SPLIT_OPEN_COST],
            options[opt.COMPACTION_MIN_FILES],
            options[compaction.DELETE_RATIO],
            options[compaction.FORCE_REWRITE],
        )

    def takes(self, file: DataFileMeta, deletion: DeletionFile | None) -> bool:
        """Whether a file of a table without buckets is small or has many deleted rows."""
        if file.file_size < self.small:
            return True
        if deletion is None:
            return False
        return deletion.cardinality is None or deletion.cardinality > file.row_count * self.deleted_ratio

    def full(self, files: Iterable[DataFileMeta], marked: Collection[str], has_vectors: bool) -> list[DataFileMeta]:
        """What a full compaction of a fixed bucket takes: all but the full files at its beginning. `marked` are the
        files with deleted rows; `has_vectors`: the table may have such files."""
        taken = sorted(files, key=lambda file: file.min_sequence_number)
        if self.rewrites_all:
            return taken
        if not has_vectors and len(taken) < _FULL_COMPACT_FILES:
            return []
        while taken and taken[0].file_size >= self.small and taken[0].file_name not in marked:
            taken.pop(0)
        if has_vectors:
            return taken if len(taken) > 1 or any(file.file_name in marked for file in taken) else []
        few = sum(file.file_size < self.small for file in taken)
        return taken if few > len(taken) - few and len(taken) >= _FULL_COMPACT_FILES else []

    def picked(self, files: Iterable[DataFileMeta]) -> list[DataFileMeta]:
        """What a commit compacts of a fixed bucket: the first `min_files` neighbours that have less than two targets
        without the last."""
        window: list[DataFileMeta] = []
        size = 0
        for file in sorted(files, key=lambda file: file.min_sequence_number):
            window.append(file)
            size += file.file_size
            if len(window) >= self.min_files:
                return window
            if size >= 2 * self.target:
                size -= window.pop(0).file_size
        return []


@dataclass(slots=True)
class PartitionPacker:
    """The files of one partition of a table without buckets that wait for a compaction, from round to round.

    `index_of` names the index file with the deletion vector of a data file, None for none; `vectors`: the table has
    deletion vectors, whose files stay together.
    """

    rules: AppendRules
    vectors: bool = False
    index_of: Callable[[str], str | None] = lambda name: None
    waiting: dict[str, DataFileMeta] = field(default_factory=dict)
    age: int = 0

    def add(self, files: Iterable[DataFileMeta]) -> None:
        """Take files that `AppendRules.takes`."""
        self.age = 0
        self.waiting.update((file.file_name, file) for file in files)

    def round(self) -> list[list[DataFileMeta]]:
        """The files of each task of this round. They no longer wait."""
        tasks = self._packed_by_index() if self.vectors else self._packed([*self.waiting.values()])
        if not tasks:
            self.age += 1
            if self.age > _COMPACT_AGE and len(self.waiting) > 1:
                tasks = [[*self.waiting.values()]]
        for task in tasks:
            for file in task:
                del self.waiting[file.file_name]
        return tasks

    @property
    def is_done(self) -> bool:
        """Whether the partition may be forgotten until it gets new files."""
        return not self.waiting or self.age > _REMOVE_AGE

    def _packed_by_index(self) -> list[list[DataFileMeta]]:
        """Tasks in which the files of an index file stay together, so that no two tasks rewrite one index file."""
        groups: dict[str, list[DataFileMeta]] = {}
        rest: list[DataFileMeta] = []
        for name, file in self.waiting.items():
            index = self.index_of(name)
            (rest if index is None else groups.setdefault(index, [])).append(file)
        tasks: list[list[DataFileMeta]] = []
        held = _Bin(self.rules)
        for group in sorted(groups.values(), key=lambda files: sum(file.file_size for file in files)):
            held.add(group)
            if held.is_full:
                tasks.append(held.drained())
        if held.files:
            tasks.append(held.drained())
        return [*tasks, *(self._packed(rest) if len(rest) > 1 else ())]

    def _packed(self, files: Sequence[DataFileMeta]) -> list[list[DataFileMeta]]:
        tasks: list[list[DataFileMeta]] = []
        held = _Bin(self.rules)
        for file in sorted(files, key=lambda file: file.file_size):
            held.add([file])
            if held.is_full:
                tasks.append(held.drained())
        if len(held.files) >= self.rules.min_files:
            tasks.append(held.drained())
        return tasks


@dataclass(slots=True)
class _Bin:
    rules: AppendRules
    files: list[DataFileMeta] = field(default_factory=list)
    size: int = 0

    def add(self, files: Sequence[DataFileMeta]) -> None:
        self.files += files
        self.size += sum(file.file_size + self.rules.open_cost for file in files)

    @property
    def is_full(self) -> bool:
        return len(self.files) > 1 and self.size >= 2 * self.rules.target

    def drained(self) -> list[DataFileMeta]:
        files, self.files, self.size = self.files, [], 0
        return files


def index_names(vectors: Mapping[str, DeletionFile]) -> Callable[[str], str | None]:
    """Gives the path of the index file that has the deletion vector of a data file."""

    def of(name: str) -> str | None:
        deletion = vectors.get(name)
        return None if deletion is None else deletion.path

    return of
