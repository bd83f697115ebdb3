"""What one task of a read gets: data files of one bucket, with their deletion vectors. Small and picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
