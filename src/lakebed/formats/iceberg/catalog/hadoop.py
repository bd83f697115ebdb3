"""Iceberg tables by path, as the reference engine's HadoopCatalog makes them.

The current metadata is `metadata/vN.metadata.json` with the greatest N, whose next name is claimed only if absent;
`version-hint.text` is a hint. A table whose metadata a catalog named is read by its path too (the newest file), and
never changed. Neither is one whose metadata says that it lies elsewhere: it is a copy, or was moved.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from lakebed.errors import (
    CorruptError,
    LakebedError,
    RetryableError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
)
from lakebed.formats.iceberg import layout
from lakebed.formats.iceberg.catalog.operations import Loaded, LostRaceError, OutcomeUnknownError, check, clean_log
from lakebed.formats.iceberg.codec.metadata import TableMetadata, metadata_from_json, metadata_to_json
from lakebed.formats.iceberg.codec.updates import TableRequirement, TableUpdate, applied
from lakebed.formats.iceberg.files import Files, spelled
from lakebed.kernel import clock
from lakebed.kernel.commit.claim import claim
from lakebed.kernel.files import PutOutcome, Store
from lakebed.kernel.files.credentials import credentials_from
from lakebed.kernel.files.places import named_places

_LOADS = 5
"""How often the current metadata is looked up anew when a clean-up was faster."""


class HadoopTable:
    """A table that is found by its path alone. Picklable."""

    def __init__(self, store: Store, options: Mapping[str, str] = {}, named: Sequence[str] = ()) -> None:
        self._store = store
        self._files = Files(store, credentials_from(options), named_places(options, named))

    @property
    def name(self) -> str:
        """The path."""
        return self._store.location

    @property
    def files(self) -> Files:
        """The table's files."""
        return self._files

    @property
    def moved_from(self) -> str:
        """Where the metadata says that the table lies, "" when it lies there."""
        return self._files.made_at if self._files.locked else ""

    def load(self) -> Loaded:
        """The current metadata: the version that the hint names or the newest after it, else the newest there is."""
        name: str | None = None
        for _ in range(_LOADS):
            name = self._current()
            if name is None:
                break
            with suppress(FileNotFoundError):  # cleaned away in between
                metadata = metadata_from_json(self._store.read(f"metadata/{name}"), f"metadata/{name}")
                self._settle(metadata.location)
                return Loaded(metadata, f"{metadata.location}/metadata/{name}")
        if name is not None:
            raise RetryableError(
                "the table's metadata changes faster than it can be read", table=self.name, file=f"metadata/{name}",
                why=f"each of {_LOADS} files that were the newest was gone when it was read", todo="Try again",
            )  # fmt: skip
        raise TableNotFoundError(
            "this is no Iceberg table", table=self.name, why="it has no metadata/*.metadata.json",
            todo="Give the table's root folder, or catalog:namespace.table",
        )  # fmt: skip

    def refuse_changes(self, base: Loaded) -> None:
        """UnsupportedError for a table of a catalog, and for one that does not lie where its metadata says."""
        if self._files.locked:
            raise UnsupportedError(
                f"this table's metadata says that it lies at {self.moved_from}", table=self.name,
                why="it is a copy or was moved, and new metadata would name files of the other place",
                todo="Open it at that place, or make this its place with table.relocate()",
            )  # fmt: skip
        self.refuse_catalogs(base)

    def refuse_catalogs(self, base: Loaded) -> None:
        """UnsupportedError for a table of a catalog, which alone says what the current metadata is."""
        name = base.location.rpartition("/")[2]
        if layout.path_table_version(name) is None:
            raise UnsupportedError(
                "this table belongs to a catalog", table=self.name,
                why=f"its metadata file is {name}, not vN.metadata.json, so its catalog says which is the current one",
                todo="Open it by its name, as catalog:namespace.table",
            )  # fmt: skip

    def _settle(self, location: str) -> None:
        """Holds the location that the metadata has against the place where the table was opened."""
        here = self._store.location
        made_at = "" if _spelled(location) == here else location or "/"
        locked = "" if not made_at or self._is_here(location) else f"its metadata says that it lies at {location}"
        if (made_at, locked) != (self._files.made_at, self._files.locked):
            old = self._files
            self._files = Files(old.home, old.credentials, old.named, made_at, locked)

    def _is_here(self, location: str) -> bool:
        """Whether a location is the table's own folder by another name: one of them is a link."""
        root, other = self._store.local_path(""), _spelled(location)
        return root is not None and other.startswith("/") and os.path.realpath(root) == os.path.realpath(other)

    def commit(self, base: Loaded, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Loaded:
        """Claim the next version. UnsupportedError for a table that belongs to a catalog, which would not see it."""
        self.refuse_changes(base)
        check(base, requirements)
        return self.publish(base, applied(base.metadata, updates, clock.now_ms(), base.location))

    def publish(self, base: Loaded, document: Mapping[str, Any]) -> Loaded:
        """Claim the version after `base` for a document. LostRaceError, OutcomeUnknownError."""
        version = layout.path_table_version(base.location.rpartition("/")[2])
        assert version is not None
        after = TableMetadata(document)
        compressed = after.properties.get("write.metadata.compression-codec", "none").lower() == "gzip"
        target = layout.path_table_metadata(version + 1, compressed)
        other = layout.path_table_metadata(version + 1, not compressed)
        if self._store.exists(f"metadata/{other}"):
            raise LostRaceError(f"{other} is there already")
        self._claim(target, metadata_to_json(document, compressed))
        with suppress(Exception):  # the commit stands, and readers look further than the hint
            self._store.write(f"metadata/{layout.VERSION_HINT}", str(version + 1).encode())
        clean_log(self._files, base.metadata, after)
        return Loaded(after, f"{after.location}/metadata/{target}")

    def create(self, document: Mapping[str, Any]) -> Loaded:
        """The first version. LostRaceError when there is one already."""
        metadata = TableMetadata(document)
        name = layout.path_table_metadata(1)
        self._claim(name, metadata_to_json(document))
        with suppress(Exception):  # the table is there
            self._store.write(f"metadata/{layout.VERSION_HINT}", b"1")
        return Loaded(metadata, f"{metadata.location}/metadata/{name}")

    def _claim(self, name: str, data: bytes) -> None:
        """Put a version if its name is free; the bytes are unique to the commit. LostRaceError, OutcomeUnknownError."""
        match claim(self._store, f"metadata/{name}", data):
            case PutOutcome.EXISTS:
                raise LostRaceError(f"{name} is there already")
            case PutOutcome.UNKNOWN:
                raise OutcomeUnknownError(f"the store does not say whether {name} was written")

    def _current(self) -> str | None:
        hint: int | None = None
        with suppress(FileNotFoundError, StorageError, ValueError):
            hint = int(self._store.read(f"metadata/{layout.VERSION_HINT}"))
        if hint is not None:
            name = self._version(hint)
            if name is not None:
                while (following := self._version(hint + 1)) is not None:
                    name, hint = following, hint + 1
                return name
        names = [info.name for info in self._store.list("metadata").files]
        by_path = [(v, n) for n in names if (v := layout.path_table_version(n)) is not None]
        if by_path:
            return max(by_path)[1]
        of_catalog = [(v, n) for n in names if (v := layout.catalog_version(n)) is not None]
        newest = [name for version, name in of_catalog if version == max(of_catalog)[0]]
        return newest[0] if len(newest) == 1 else self._youngest(newest)

    def _version(self, number: int) -> str | None:
        """The file of a version, None when there is none."""
        for compressed in (False, True):
            name = layout.path_table_metadata(number, compressed)
            if self._store.exists(f"metadata/{name}"):
                return name
        return None

    def _youngest(self, names: Sequence[str]) -> str | None:
        """Of several files of one version, which commits that lost a race leave behind, the last written."""
        found = []
        for name in names:
            with suppress(FileNotFoundError, CorruptError):
                document = metadata_from_json(self._store.read(f"metadata/{name}"), name).document
                found.append((int(document.get("last-updated-ms", 0)), name))
        return max(found)[1] if found else None


def _spelled(location: str) -> str:
    """A location in one spelling, as it is where it has none."""
    with suppress(LakebedError):
        return spelled(location)
    return location
