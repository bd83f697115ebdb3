"""What one task reads: file slices by path, small and picklable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lakebed.formats.hudi.layout import METADATA_BOOTSTRAP, parse_base_name
from lakebed.formats.hudi.slices import FileSlice
from lakebed.model.split import Split


class SlicePaths(NamedTuple):
    """A file slice as the paths of its files inside the table.

    `base` is "" where there is no base file. `logs` are in merge order. Blocks of instants after `until` do not count;
    "" is no such bound.
    """

    partition: str
    file_id: str
    base: str
    logs: tuple[str, ...]
    until: str = ""

    @classmethod
    def of(cls, file_slice: FileSlice, until: str = "") -> SlicePaths:
        """The paths of a file slice."""
        prefix = f"{file_slice.partition}/" if file_slice.partition else ""
        return cls(
            file_slice.partition,
            file_slice.file_id,
            prefix + file_slice.base.name if file_slice.base else "",
            tuple(prefix + log.name for log in file_slice.logs),
            until,
        )

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
    logs: tuple[str, ...] = ()
    before: SlicePaths | None = None
    after: SlicePaths | None = None
    deletes: bool = False
    gone: str = ""
    may_reappear: bool = False


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


def split_of(file_slice: FileSlice) -> HudiSplit:
    """The split of one file slice."""
    group = f"{file_slice.partition}/{file_slice.file_id}" if file_slice.partition else file_slice.file_id
    return HudiSplit(group, file_slice.size, (SlicePaths.of(file_slice),))
