"""Finds the current metadata file of a table that is opened by its path, in as few requests in a row as it can.

Rule: HadoopTableOperations.findVersion and refresh. The version of the hint is followed by later ones while there are
any. Without a usable hint the newest file of the listed folder is the current one.

A version and the one after it are asked for together. That is safe in any order of answers: a version whose successor
is not there when it is looked for was current at a moment of this look. A later look asks for the version that it knows
together with the hint, and begins there when the hint is not older. What an earlier look read is read again, since a
table may have been dropped and made anew; only names with a UUID are trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

from lakebed.errors import CorruptError, StorageError
from lakebed.formats.iceberg import layout
from lakebed.formats.iceberg.codec.metadata import metadata_from_json
from lakebed.kernel.files import FileInfo, Store

_FOLDER = "metadata"
_AHEAD = (8, 64)
"""How many versions are looked for at once when a hint is old."""


def current_metadata(store: Store, known: tuple[str, bytes] | None = None) -> tuple[str, bytes] | None:
    """The name of the current metadata file and its bytes; None when the table has none.

    `known` is what an earlier call returned: one request in a row tells then whether it still is the current one.
    FileNotFoundError when a file is removed before it is read, CorruptError when the one that the hint names was.
    """
    return _Look(store, known).current()


class _Look:
    """One look at a table's metadata folder. `contents` are the files that were read during this look, by name."""

    def __init__(self, store: Store, known: tuple[str, bytes] | None) -> None:
        self._store, self._known = store, known
        self._contents: dict[str, bytes] = {}
        self._listing: Sequence[FileInfo] | None = None

    def current(self) -> tuple[str, bytes] | None:
        known = layout.hadoop_version(self._known[0]) if self._known else None
        if self._known is not None and known is None:  # of a catalog, so there is no hint
            acts: list[Callable[[], object]] = [partial(self._read, [layout.VERSION_HINT]), self._list]
            self._store.together(lambda act: act(), acts)
        else:
            of_known = [] if known is None else [*_names(known), *_names(known + 1)]
            self._read([layout.VERSION_HINT, *(name for name in of_known if self._may_be(name, known))])
        hint: int | None = None
        with suppress(KeyError, ValueError):
            hint = int(self._contents[layout.VERSION_HINT])
        if hint is None:
            return self._listed()
        if known is not None and self._of(known) and known - 1 <= hint <= known + 1:
            newest = self._following(known)
            if newest and hint <= (layout.hadoop_version(newest[0]) or 0):
                return newest
        self._read([*_names(hint), *_names(hint + 1)])
        following = self._following(hint) if self._of(hint) else None
        return following or self._checked(self._listed(), hint)

    def _checked(self, newest: tuple[str, bytes] | None, hint: int) -> tuple[str, bytes] | None:
        """The newest file that is listed. CorruptError where it is older than the hint, whose file was there when the
        hint was written: the reference engine fails too. The hint is read again, since the table may be a new one."""
        version = layout.hadoop_version(newest[0]) if newest is not None else None
        if version is None or version >= hint or self._bytes_of(layout.VERSION_HINT) != str(hint).encode():
            return newest
        raise CorruptError(
            "the table's current metadata file is gone",
            table=self._store.location,
            file=f"{_FOLDER}/{layout.hadoop_metadata(hint)}",
            why=f"{layout.VERSION_HINT} names version {hint}, and the newest file that is there is version {version}",
            todo=f"Restore the file. If it is lost, remove {_FOLDER}/{layout.VERSION_HINT}: the table is then that of"
            f" version {version}, without the commits since",
        )

    def _may_be(self, name: str, known: int | None) -> bool:
        """Whether to look for a name: the known version has the spelling that it had."""
        assert self._known is not None
        return name == self._known[0] or layout.hadoop_version(name) != known

    def _list(self) -> Sequence[FileInfo]:
        if self._listing is None:
            self._listing = self._store.list(_FOLDER).files
        return self._listing

    def _following(self, version: int) -> tuple[str, bytes] | None:
        """The last of the versions from this one on. This one and the next were looked for."""
        if not self._of(version + 1):
            return self._of(version)
        self._read(_names(version + 2))
        if not self._of(version + 2):
            return self._of(version + 1)
        last, (width, *widths) = version + 2, _AHEAD
        while True:
            numbers = range(last + 1, last + 1 + width)
            names = [name for number in numbers for name in _names(number)]
            exists = dict(zip(names, self._store.together(self._exists, names), strict=True))
            gap = next((number for number in numbers if not any(exists[name] for name in _names(number))), None)
            last = gap - 1 if gap is not None else numbers[-1]
            if gap is not None:
                break
            width, *widths = widths or [width]
        self._read([name for name in _names(last) if name not in self._contents])
        return self._of(last)

    def _listed(self) -> tuple[str, bytes] | None:
        """The newest file of the folder. Where commits that lost a race left several of one version, the last
        written."""
        sizes = {info.name: info.size for info in self._list()}
        names = [*sizes]
        of_path = [(version, name) for name in names if (version := layout.hadoop_version(name)) is not None]
        if of_path:
            newest = [max(of_path)[1]]
        else:
            of_catalog = [(version, name) for name in names if (version := layout.catalog_version(name)) is not None]
            newest = [name for version, name in of_catalog if version == max(of_catalog)[0]]
        if self._known and newest == [self._known[0]] and sizes[newest[0]] == len(self._known[1]) and not of_path:
            return self._known  # its name is unique for ever
        if len(newest) < 2:
            return (newest[0], self._store.read(f"{_FOLDER}/{newest[0]}")) if newest else None
        self._read(newest)
        by_time = []
        for name in newest:
            with suppress(KeyError, CorruptError):
                document = metadata_from_json(self._contents[name], name).document
                by_time.append((int(document.get("last-updated-ms", 0)), name))
        return (name := max(by_time)[1], self._contents[name]) if by_time else None

    def _of(self, version: int) -> tuple[str, bytes] | None:
        """The file of a version, among those that were read."""
        return next(((name, self._contents[name]) for name in _names(version) if name in self._contents), None)

    def _read(self, names: Iterable[str]) -> None:
        """Read these files together, those that there are."""
        names = [*names]
        for name, data in zip(names, self._store.together(self._bytes_of, names), strict=True):
            if data is not None:
                self._contents[name] = data

    def _bytes_of(self, name: str) -> bytes | None:
        try:
            return self._store.read(f"{_FOLDER}/{name}")
        except FileNotFoundError:
            return None
        except StorageError:
            if name == layout.VERSION_HINT:  # it is only a hint
                return None
            raise

    def _exists(self, name: str) -> bool:
        return self._store.exists(f"{_FOLDER}/{name}")


def _names(version: int) -> Sequence[str]:
    """The names that the metadata file of a version may have."""
    return layout.hadoop_metadata(version), layout.hadoop_metadata(version, compressed=True)
