"""What one task of a read gets: data files of one bucket, with their deletion vectors. Small and picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.model.split import Split


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """Where the deletion vector of one data file is stored.

    `path` is relative to the table. `offset` and `length` are bytes; `length` covers the whole block. `cardinality` is
    how many rows the vector deletes, None where the manifest does not say.
    """

    path: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True)
class PaimonSplit(Split):
    """Files of one bucket, in the order in which they were committed.

    `folder` is the bucket's path in the table. `deletions` has the deletion vectors by data file name.
    """

    partition: bytes
    bucket: int
    folder: str
    files: tuple[DataFileMeta, ...] = field(default=())
    deletions: Mapping[str, DeletionFile] = field(default_factory=dict)
    unmerged: bool = False
    """Whether each key is in one file only: level 0 is left out, and vectors delete the rows that were replaced."""

    def path(self, file: DataFileMeta) -> str:
        """The path of one of the files in the table."""
        return f"{self.folder}/{file.file_name}"


class How(StrEnum):
    """How a step of changes reads its files."""

    WRITTEN = "written"
    """Read each row of the added files as written, with its own kind."""
    MERGED = "merged"
    """The merged rows of the added files, with those that mark a delete."""
    REPLACED = "replaced"
    """The merged rows of the removed files as deleted, then those of the added files."""
    COMPARED = "compared"
    """Only the keys whose merged rows differ in the removed and the added files."""


class Only(StrEnum):
    """The rows of a step that a task reads."""

    ALL = "all"
    RETRACTED = "retracted"
    """Rows of the kinds -U and -D."""
    CURRENT = "current"
    """Rows of the kinds +I and +U."""


@dataclass(frozen=True, slots=True)
class Step:
    """Files of one bucket that came and went together."""

    how: How
    added: PaimonSplit | None = None
    removed: PaimonSplit | None = None
    only: Only = Only.ALL

    @property
    def side(self) -> PaimonSplit:
        """One of the two sides, for properties that both share."""
        side = self.added or self.removed
        assert side is not None
        return side

    @property
    def may_retract(self) -> bool:
        """Whether there may be rows of kind -U and -D."""
        return self.removed is not None or any(file.delete_row_count != 0 for file in self.side.files)


@dataclass(frozen=True, slots=True)
class ChangeSplit(Split):
    """The changes of one bucket, step by step in the order in which they were committed; of all buckets where a key may
    move from one to another."""

    steps: tuple[Step, ...] = ()
