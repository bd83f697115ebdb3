"""What one task reads: file slices by path, small and picklable."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

from lakebed.formats.hudi.layout import METADATA_BOOTSTRAP, parse_base_name
from lakebed.formats.hudi.slices import FileSlice
from lakebed.kernel.files import FileInfo, Store
from lakebed.model.split import Split


class SlicePaths(NamedTuple):
    """A file slice as the paths of its files inside the table.

    `base` is "" where there is no base file. `logs` are in merge order. Blocks of instants after `until` do not count;
    "" is no such bound. `sizes` are the bytes of the logs in their order, then of the base file if there is one.
    """

    partition: str
    file_id: str
    base: str
    logs: tuple[str, ...]
    until: str = ""
    sizes: tuple[int, ...] = ()

    @classmethod
    def of(cls, file_slice: FileSlice, until: str = "") -> SlicePaths:
        """The paths of a file slice."""
        prefix = f"{file_slice.partition}/" if file_slice.partition else ""
        base = file_slice.base
        return cls(
            file_slice.partition,
            file_slice.file_id,
            prefix + base.name if base else "",
            tuple(prefix + log.name for log in file_slice.logs),
            until,
            (*(log.size for log in file_slice.logs), *((base.size,) if base else ())),
        )

    @property
    def files(self) -> tuple[FileInfo, ...]:
        """The files in the order in which they are read: the logs, then the base file."""
        paths = (*self.logs, self.base) if self.base else self.logs
        return tuple(FileInfo(path, size) for path, size in zip(paths, self.sizes, strict=False))

    @property
    def base_size(self) -> int | None:
        """The bytes of the base file, None where they are not known."""
        return self.sizes[len(self.logs)] if self.base and len(self.sizes) > len(self.logs) else None

    def without_logs(self) -> SlicePaths:
        """The base file alone."""
        return self._replace(logs=(), sizes=self.sizes[len(self.logs) :])

    def without_base(self) -> SlicePaths:
        """The logs alone."""
        return self._replace(base="", sizes=self.sizes[: len(self.logs)])

    @property
    def is_skeleton(self) -> bool:
        """Whether the base file is one of a metadata-only bootstrap: it holds the meta columns alone."""
        parsed = parse_base_name(self.base.rpartition("/")[2])
        return parsed is not None and parsed[1].instant == METADATA_BOOTSTRAP


class FileGroupChange(NamedTuple):
    """What one commit did to one file group, as the files that show it.

    `logs` are the commit's change logs. `before` and `after` are the slices on both sides of the commit, None where the
    group has none. `gone` names a file of these slices that was cleaned, where the change logs are there. `deletes`
    says that keys of `before` can be missing in `after`, and `may_reappear` that keys which the log of `before` deletes
    can be back in `after`. `instant` is "" for rows that a stream begins with.
    """

    instant: str
    partition: str
    logs: tuple[FileInfo, ...] = ()
    before: SlicePaths | None = None
    after: SlicePaths | None = None
    deletes: bool = False
    gone: str = ""
    may_reappear: bool = False

    @property
    def files(self) -> tuple[FileInfo, ...]:
        """The files that reading it begins with: the change logs where it has any, else those of both slices."""
        if self.logs:
            return self.logs
        return tuple(info for paths in (self.after, self.before) if paths is not None for info in paths.files)


@dataclass(frozen=True, slots=True)
class HudiSplit(Split):
    """File slices that one task reads together.

    For a snapshot `slices` has one slice. For net changes it has the slices at the end of the range; a key that lives
    in one of them is no delete in another. `before` has slices from before the range's first delete, where no log file
    holds the deletes any more: a key of `before` that is not in `slices` was deleted. `hiding` has slices from before
    the range whose logs hide keys that may be back at its end. For full changes and the changelog only `changes` is
    set, in the order of the commits.
    """

    slices: tuple[SlicePaths, ...]
    before: tuple[SlicePaths, ...] = ()
    changes: tuple[FileGroupChange, ...] = ()
    hiding: tuple[SlicePaths, ...] = ()

    def fetched_ahead(self, store: Store) -> AbstractContextManager[None]:
        """A block that reads the split: its files are fetched together, in the order in which they are read."""
        if store.at_once == 1:
            return nullcontext()
        hiding = [info for paths in self.hiding for info in paths.files[: len(paths.logs)]]
        slices = [info for paths in (*self.slices, *self.before) for info in paths.files]
        files = [*hiding, *slices, *(info for change in self.changes for info in change.files)]
        return store.fetching(files) if len(files) > 1 else nullcontext()


def split_of(file_slice: FileSlice) -> HudiSplit:
    """The split of one file slice."""
    group = f"{file_slice.partition}/{file_slice.file_id}" if file_slice.partition else file_slice.file_id
    return HudiSplit(group, file_slice.size, (SlicePaths.of(file_slice),))
