"""Table operations: load a table's current metadata, and publish the next.

`hadoop.py` has those of a table that is opened by its path, `table.py` those of a table in a catalog. Both take changes
as requirements and updates of the REST specification, and distinguish a lost race from an unknown outcome.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from lakebed.formats.iceberg.catalog.demands import planned_elsewhere
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.updates import TableRequirement, TableUpdate, dropped_metadata, unmet
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.layout import data_folder, is_metadata, metadata_folder, refuse_location_provider


@dataclass(frozen=True, slots=True)
class Loaded:
    """A table's metadata as it was read, and the location of its file. `size` is how many bytes the file has, -1 where
    that is not known. What a commit returns has `replaced`: the file that a catalog put the changes on, where that was
    not the base of the commit; None where nobody can tell."""

    metadata: TableMetadata
    location: str
    size: int = -1
    replaced: str | None = ""


class LostRaceError(Exception):
    """Another commit was faster: a requirement does not hold, or the next version exists. Nothing was published."""


class CalledLostError(LostRaceError):
    """A catalog calls the race lost. A client or a proxy that repeats an unanswered request meets its own effect, so
    that the table must say whether the commit is there."""


class OutcomeUnknownError(Exception):
    """The store or the catalog did not report whether the commit was published."""


class Planner(Protocol):
    """A server that plans the scans of a table for its readers."""

    def plan(self, request: Mapping[str, Any]) -> tuple[Sequence[Mapping[str, Any]], Files]:
        """The answers that the tasks of a scan are in, as JSON, and the files to read them with."""
        ...


class TableOperations(Protocol):
    """The operations of one table. `name` is for people: its path, or its name in the catalog."""

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
    def last(self) -> Loaded | None:
        """What the last `load` returned, where it is kept. It may be old: it only tells what is likely needed next."""
        ...

    @property
    def moved_from(self) -> str:
        """The location in the metadata, where it is not that of the table; else ""."""
        ...

    @property
    def planner(self) -> Planner | None:
        """Who plans the scans of the table, where that is not left to its readers. Ask after `load`."""
        ...

    def refuse_changes(self, base: Loaded) -> None:
        """UnsupportedError for a table that may only be read. Call it before the first file of a change is written."""
        ...

    def commit(
        self,
        base: Loaded,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
        first: Mapping[str, bytes] = {},
    ) -> Loaded:
        """Publish changes of `base`. `first` are new files by location that the updates name: they are written before
        the changes are published, together with what is looked up for that.

        Raises LostRaceError when nothing was published, OutcomeUnknownError.
        """
        ...


def refuse_writing(operations: TableOperations, base: Loaded) -> None:
    """UnsupportedError for a table that may not be changed, that puts new files in a place it may not touch, or that
    names them by its own code. Call it before the first file is written."""
    operations.refuse_changes(base)
    location, properties = base.metadata.location, base.metadata.properties
    refuse_location_provider(location, properties)
    operations.files.place(data_folder(location, properties))
    operations.files.place(metadata_folder(location, properties))


def refuse_reading_manifests(operations: TableOperations) -> None:
    """UnsupportedError for a table whose manifests only its catalog may read. What reads a manifest list is refused
    there anyway: call it where an error would be a finding, or where work comes before the list."""
    if operations.files.planned_for:
        raise planned_elsewhere(operations.name)


def check(base: Loaded, requirements: Sequence[TableRequirement]) -> None:
    """LostRaceError when a requirement does not hold for the metadata that the changes are based on."""
    reason = unmet(base.metadata, requirements)
    if reason is not None:
        raise LostRaceError(reason)


def clean_log(files: Files, before: TableMetadata, after: TableMetadata) -> None:
    """Remove metadata files that are no longer in the metadata log, where the table asks for it. A failure leaves them.

    Only files with the name of a metadata file, in a place that the table may touch, are removed: the log may name any
    file.
    """
    with suppress(Exception):  # the commit stands
        files.delete_many(path for path in dropped_metadata(before, after) if is_metadata(path) and files.reaches(path))
