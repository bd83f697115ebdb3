"""What a commit needs of a table's place in the world: its current metadata, and a way to publish the next.

Two things are such a place: a path alone (`path_table.py`) and an entry of a catalog (`catalog.py`). Both take changes
as the REST catalog's requirements and updates, and tell a lost race from an outcome that nobody told.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.updates import TableRequirement, TableUpdate, dropped_metadata, unmet
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.layout import data_folder, is_metadata, metadata_folder, refuse_location_provider


@dataclass(frozen=True, slots=True)
class Loaded:
    """A table's metadata as it was read, and the location of its file."""

    metadata: TableMetadata
    location: str


class LostRaceError(Exception):
    """Another commit was faster: the requirements do not hold, or the next version is taken. Nothing was published."""


class OutcomeUnknownError(Exception):
    """Nobody said whether the commit was published."""


class TableOperations(Protocol):
    """A table's place in the world. `name` is for people: its path or its name in the catalog."""

    @property
    def name(self) -> str:
        """The path, or `catalog:namespace.table`."""
        ...

    @property
    def files(self) -> Files:
        """The table's files."""
        ...

    def load(self) -> Loaded:
        """The current metadata, read anew. TableNotFoundError when there is none."""
        ...

    @property
    def moved_from(self) -> str:
        """Where the metadata says that the table lies, "" when it lies there."""
        ...

    def refuse_changes(self, base: Loaded) -> None:
        """UnsupportedError for a table that may only be read; asked before the first file of a change is written."""
        ...

    def commit(self, base: Loaded, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Loaded:
        """Publish changes of `base`. Raises LostRaceError, when nothing is published, and OutcomeUnknownError."""
        ...


def refuse_writing(operations: TableOperations, base: Loaded) -> None:
    """UnsupportedError for a table that may not be changed, or that wants new files where it may not touch anything or
    named by code of its own; asked before the first of them is written."""
    operations.refuse_changes(base)
    location, properties = base.metadata.location, base.metadata.properties
    refuse_location_provider(location, properties)
    operations.files.place(data_folder(location, properties))
    operations.files.place(metadata_folder(location, properties))


def check(base: Loaded, requirements: Sequence[TableRequirement]) -> None:
    """LostRaceError when a requirement does not hold on the metadata that the changes are made from."""
    reason = unmet(base.metadata, requirements)
    if reason is not None:
        raise LostRaceError(reason)


def clean_log(files: Files, before: TableMetadata, after: TableMetadata) -> None:
    """Removes metadata files that fell out of the log, where the table wants it; a failure leaves them. What the log
    names besides metadata files of the table's own places stays: it is no word to go by."""
    with suppress(Exception):  # the commit stands
        files.delete_many(path for path in dropped_metadata(before, after) if is_metadata(path) and files.reaches(path))
