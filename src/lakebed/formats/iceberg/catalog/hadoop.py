"""Hadoop tables: Iceberg tables that are opened by their path, as by the reference engine's HadoopTableOperations.

The current metadata is `metadata/vN.metadata.json` with the greatest N. A commit claims the next name, which must be
free. `version-hint.text` is only a hint.

Two kinds of table are read by their path and never changed: a table of a catalog (the newest metadata file is read),
and a table whose metadata says that it lies elsewhere, which is a copy or was moved.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from lakebed.errors import (
    RetryableError,
    TableNotFoundError,
    UnsupportedError,
)
from lakebed.formats.iceberg import layout
from lakebed.formats.iceberg.catalog.current import current_metadata
from lakebed.formats.iceberg.catalog.operations import Loaded, LostRaceError, OutcomeUnknownError, check, clean_log
from lakebed.formats.iceberg.codec.metadata import TableMetadata, metadata_from_json, metadata_to_json
from lakebed.formats.iceberg.codec.updates import TableRequirement, TableUpdate, applied, cleans_log
from lakebed.formats.iceberg.files import Files, spelling_of
from lakebed.kernel import clock
from lakebed.kernel.commit.claim import ask_again, claim
from lakebed.kernel.files import PutOutcome, Store
from lakebed.kernel.files.credentials import credentials_from
from lakebed.kernel.files.places import named_places

_LOADS = 5
"""How often the current metadata is looked up when a cleanup removes it before it is read."""
_LOOKS = 3
"""How often the store is asked what follows a claim, while it does not answer."""
_KEPT = 16 << 20
"""A metadata file of more bytes is not kept for the next call."""


class _Later(Enum):
    """How a later version, the one that the hint names, stands to a claim of an earlier version."""

    NONE = "no later version is named"
    NAMES = "it comes from the claim, and its log names it"
    OURS = "it comes from the claim, which its log does not name any more"
    OTHERS = "it comes from another commit of that version"
    UNCLEAR = "it does not know the version any more"


@dataclass(frozen=True, slots=True)
class _Read:
    """A metadata file as it was read."""

    name: str
    data: bytes
    loaded: Loaded


class HadoopTable:
    """The operations of a table that is opened by its path. Picklable."""

    def __init__(self, store: Store, options: Mapping[str, str] = {}, named: Sequence[str] = ()) -> None:
        self._store = store
        self._files = Files(store, credentials_from(options), named_places(options, named))
        self._last: _Read | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None}

    @property
    def name(self) -> str:
        """The path."""
        return self._store.location

    @property
    def files(self) -> Files:
        """The table's files."""
        return self._files

    @property
    def last(self) -> Loaded | None:
        """The result of the last `load`; None if it is not kept."""
        return self._last.loaded if self._last else None

    @property
    def moved_from(self) -> str:
        """The location in the metadata, where it is not that of the table; else ""."""
        return self._files.made_at if self._files.locked else ""

    def load(self) -> Loaded:
        """The current metadata: the version of the hint or the newest after it, else the newest that is listed.

        What has the bytes of the last call is not parsed again. TableNotFoundError when there is none, RetryableError
        when files are removed faster than they can be read.
        """
        for _ in range(_LOADS):
            last = self._last
            with suppress(FileNotFoundError):  # cleaned away in between
                newest = current_metadata(self._store, (last.name, last.data) if last else None)
                if newest is None:
                    break
                return self._parsed(*newest)
        else:
            raise RetryableError(
                "the table's metadata changes faster than it can be read",
                table=self.name,
                why=f"{_LOADS} times the newest file was gone when it was read",
                todo="Try again",
            )
        raise TableNotFoundError(
            "not an Iceberg table",
            table=self.name,
            why="it has no metadata/*.metadata.json",
            todo="Give the table's root folder, or catalog:namespace.table",
        )

    def _parsed(self, name: str, data: bytes) -> Loaded:
        last = self._last
        if last is not None and (last.name, last.data) == (name, data):
            return last.loaded
        metadata = metadata_from_json(data, f"metadata/{name}")
        return self._published(name, data, metadata)

    def _published(self, name: str, data: bytes, metadata: TableMetadata) -> Loaded:
        self._compare_location(metadata.location)
        loaded = Loaded(metadata, f"{metadata.location}/metadata/{name}", len(data))
        self._last = _Read(name, data, loaded) if len(data) <= _KEPT else None
        return loaded

    @property
    def planner(self) -> None:
        """None: readers plan their own scans."""

    def refuse_changes(self, base: Loaded) -> None:
        """UnsupportedError for a table of a catalog, and for one whose metadata says that it lies elsewhere."""
        if self._files.locked:
            raise UnsupportedError(
                f"this table's metadata says that it lies at {self.moved_from}",
                table=self.name,
                why="it is a copy or was moved, and new metadata would name files of the other place",
                todo="Open it at that place, or make this its place with table.relocate()",
            )
        self.refuse_catalogs(base)

    def refuse_catalogs(self, base: Loaded) -> None:
        """UnsupportedError for a table of a catalog: only the catalog knows the current metadata."""
        name = base.location.rpartition("/")[2]
        if layout.hadoop_version(name) is None:
            raise UnsupportedError(
                "this table belongs to a catalog",
                table=self.name,
                why=f"its metadata file is {name}, not vN.metadata.json, so only its catalog knows the current one",
                todo="Open it by its name, as catalog:namespace.table",
            )

    def _compare_location(self, location: str) -> None:
        """Compare the location in the metadata with the one where the table was opened, and lock the files where they
        differ."""
        here = self._store.location
        made_at = "" if spelling_of(location) == here else location or "/"
        locked = "" if not made_at or self._is_here(location) else f"its metadata says that it lies at {location}"
        if (made_at, locked) != (self._files.made_at, self._files.locked):
            old = self._files
            self._files = Files(old.home, old.credentials, old.named, made_at, locked)

    def _is_here(self, location: str) -> bool:
        """Whether a location is the table's own folder under another name, because one of them is a link."""
        root, other = self._store.local_path(""), spelling_of(location)
        return root is not None and other.startswith("/") and os.path.realpath(root) == os.path.realpath(other)

    def commit(
        self,
        base: Loaded,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
        first: Mapping[str, bytes] = {},
    ) -> Loaded:
        """Claim the next version. Raises LostRaceError, OutcomeUnknownError, and what `refuse_changes` raises."""
        self.refuse_changes(base)
        check(base, requirements)
        return self.publish(base, applied(base.metadata, updates, clock.now_ms(), base.location), first)

    def publish(self, base: Loaded, document: Mapping[str, Any], first: Mapping[str, bytes] = {}) -> Loaded:
        """Claim the version after `base` for a metadata document, once the files of `first` are written. Raises
        LostRaceError, OutcomeUnknownError."""
        version = layout.hadoop_version(base.location.rpartition("/")[2])
        assert version is not None
        after = TableMetadata(document)
        compressed = after.properties.get("write.metadata.compression-codec", "none").lower() == "gzip"
        target = layout.hadoop_metadata(version + 1, compressed)
        other = layout.hadoop_metadata(version + 1, not compressed)
        looks = [lambda: self._refuse_other(other)]
        if cleans_log(after):
            looks.append(lambda: self._refuse_late(base))
        self._files.write_many(first, *looks)
        data = metadata_to_json(document, compressed)
        self._claim(target, data)
        if cleans_log(after) and self._is_followed(base, target, data, after):
            return self._published(target, data, after)  # the hint is at a later version, and stays there
        hint = str(version + 1).encode()
        self._files.side_by_side(lambda: self._point_to(hint), lambda: clean_log(self._files, base.metadata, after))
        return self._published(target, data, after)

    def _refuse_other(self, name: str) -> None:
        """LostRaceError when the next version exists under its other name."""
        if self._store.exists(f"metadata/{name}"):
            raise LostRaceError(f"{name} already exists")

    def _refuse_late(self, base: Loaded) -> None:
        """LostRaceError when the next version may have been there and be gone again, since commits clean up: it is
        removed only after the one before it."""
        current = base.location.rpartition("/")[2]
        if not self._store.exists(f"metadata/{current}"):
            raise LostRaceError(f"{current} was cleaned up after later commits")

    def _is_followed(self, base: Loaded, name: str, data: bytes, own: TableMetadata) -> bool:
        """Look once more, now that the claim was made: the version may have come and gone while the claim was on its
        way. Then remove our file, which readers that believe it would take for the current one. Returns whether later
        versions come from the claim, which had been made by a put without an answer: what was put again then goes, too.
        OutcomeUnknownError where nobody can tell whether it came in time: as many others may have followed as it takes
        to remove this version. LostRaceError where it came too late for certain, and is removed. A store that answers
        nothing any more tells nothing: then the claim counts."""
        path = f"metadata/{name}"
        stays, followed = self._looked(base, name, data, own)
        if followed is _Later.OURS:
            with suppress(Exception):
                self._store.delete(path)
        if followed in (_Later.OURS, _Later.NAMES) or (followed is _Later.NONE and stays):
            return followed is not _Later.NONE
        answers = followed in (_Later.OTHERS, _Later.UNCLEAR)
        try:
            is_here = self._holds(path, data) if answers else self._store.read(path) == data
        except Exception as error:
            if answers:
                raise OutcomeUnknownError(f"{name} cannot be read") from error
            return False
        if followed is None:
            raise OutcomeUnknownError(f"whether {name} came in time cannot be read")
        gone = not is_here
        if is_here:
            with suppress(Exception):
                self._store.delete(path)
                gone = True
        if gone and followed is _Later.OTHERS:
            raise LostRaceError(f"{name} had been made by another commit")
        raise OutcomeUnknownError(f"{name} had been made and cleaned up by later commits")

    def _holds(self, path: str, data: bytes) -> bool:
        """Whether a file is there and has these bytes."""
        try:
            return self._store.read(path) == data
        except FileNotFoundError:
            return False

    def _looked(self, base: Loaded, name: str, data: bytes, own: TableMetadata) -> tuple[bool, _Later | None]:
        """Whether the base of a claim is still there, and what the later version says. None where the store, which is
        asked a few times, does not tell."""
        current = f"metadata/{base.location.rpartition('/')[2]}"
        looks: tuple[Callable[[], Any], ...] = (
            lambda: self._store.exists(current), lambda: self._later(base, name, data, own),
        )  # fmt: skip
        with suppress(Exception):
            stays, followed = ask_again(lambda: self._store.together(lambda look: look(), looks), _LOOKS)
            return stays, followed
        return False, None

    def _later(self, base: Loaded, name: str, data: bytes, own: TableMetadata) -> _Later:
        """Where the later version that the hint names comes from: it has the snapshot that this one added, or another
        one of that sequence number; or its log has this version with its time, or that of an older version which the
        log names. Where the times tell nothing, the file does while it stands (`_is_in_log`). What else lies in the
        folder tells nothing: commits that died before they had cleaned up, and other late claims, leave files."""
        version = layout.hadoop_version(name)
        try:
            newest = int(self._store.read(f"metadata/{layout.VERSION_HINT}"))
            if version is None or newest <= version:
                return _Later.NONE
            later = self._version(newest)
        except (FileNotFoundError, ValueError):
            return _Later.NONE
        ours = _Later.NAMES if version in map(_version_of, (file for _, file in later.metadata_log)) else _Later.OURS
        added = {id: one for id, one in own.snapshots.items() if id not in base.metadata.snapshots}
        if not added.keys().isdisjoint(later.snapshots):
            return ours
        numbers = {one.sequence_number for one in added.values()} - {0}  # none in format version 1
        if not numbers.isdisjoint({one.sequence_number for one in later.snapshots.values()}):
            return _Later.OTHERS
        logged_time, mine = self._logged(later, version), own.document["last-updated-ms"]
        if logged_time is None:
            return _Later.UNCLEAR
        if logged_time == mine == base.metadata.document["last-updated-ms"]:
            # clocks that are behind the base's give its time to each version after it
            return _Later.NAMES if self._is_in_log(newest, version, name, data) else _Later.UNCLEAR
        return ours if logged_time == mine else _Later.OTHERS

    def _is_in_log(self, newest: int, version: int, name: str, data: bytes) -> bool:
        """Whether the newest version has this one in its log and the file holds the claim's bytes. No commit has
        removed a file that the log names, so its name was not free again: what stands there is what the log means. The
        hint may be behind, so versions after it are looked for, as a reader does."""
        while any(self._store.exists(f"metadata/{one}") for one in _names_of(newest + 1)):
            newest += 1
        named = {_version_of(file) for _, file in self._version(newest).metadata_log}
        return version in named and self._holds(f"metadata/{name}", data)

    def _logged(self, later: TableMetadata, version: int) -> int | None:
        """When a version was made, in milliseconds since 1970, by the log of a later one, or by the log of the oldest
        version that this one names, and so on. None where no version that is there knows."""
        while True:
            times = {_version_of(file): time for time, file in later.metadata_log}
            if version in times:
                return times[version]
            oldest = min((number for number in times if number is not None), default=version)
            if oldest <= version:
                return None
            try:
                later = self._version(oldest)
            except FileNotFoundError:
                return None
            if later.document["last-updated-ms"] != times[oldest]:  # the file of another commit
                return None

    def _version(self, number: int) -> TableMetadata:
        """The metadata of a version, by either of its names."""
        plain, compressed = _names_of(number)
        name = plain if self._store.exists(f"metadata/{plain}") else compressed
        return metadata_from_json(self._store.read(f"metadata/{name}"), f"metadata/{name}")

    def _point_to(self, hint: bytes) -> None:
        with suppress(Exception):  # the commit stands, and readers look for versions after the hint
            self._store.write_briefly(f"metadata/{layout.VERSION_HINT}", hint)

    def create(self, document: Mapping[str, Any]) -> Loaded:
        """Claim the first version. Raises LostRaceError when there is one, OutcomeUnknownError."""
        metadata = TableMetadata(document)
        name = layout.hadoop_metadata(1)
        data = metadata_to_json(document)
        self._claim(name, data)
        self._point_to(b"1")
        return self._published(name, data, metadata)

    def _claim(self, name: str, data: bytes) -> None:
        """Claim the name of a version. The bytes are unique to the commit. LostRaceError, OutcomeUnknownError."""
        match claim(self._store, f"metadata/{name}", data):
            case PutOutcome.EXISTS:
                raise LostRaceError(f"{name} already exists")
            case PutOutcome.UNKNOWN:
                raise OutcomeUnknownError(f"the store does not say whether {name} was written")


def _names_of(version: int) -> tuple[str, str]:
    """The names that the metadata file of a version may have."""
    return layout.hadoop_metadata(version), layout.hadoop_metadata(version, compressed=True)


def _version_of(location: str) -> int | None:
    return layout.hadoop_version(location.rpartition("/")[2])
