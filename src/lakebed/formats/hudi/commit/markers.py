"""Markers: small files that say which data files a write is going to make, before it makes them.

A rollback finds a failed write's files by them without listing the table. Direct markers are one empty file each,
`.hoodie/.temp/<instant>/<path>.marker.<kind>`; Hudi's timeline server batches the same names as lines of `MARKERS*`
files.

Rules: Hudi's `DirectWriteMarkers`, `TimelineServerBasedWriteMarkers` and `MarkerUtils`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from lakebed.errors import LakebedError
from lakebed.formats.hudi.layout import HOODIE
from lakebed.kernel.files import Store

_MARKER = ".marker."


def marker_folder(instant: str) -> str:
    """The folder of an instant's markers."""
    return f"{HOODIE}/.temp/{instant}"


@dataclass(frozen=True, slots=True)
class DirectMarkers:
    """Notes each file of an instant in a file of its own. Picklable. `noted` has the files that this process noted."""

    store: Store
    instant: str
    noted: list[str] = field(default_factory=list)

    def __call__(self, path: str, kind: str) -> None:
        """Record a file before it is made; `kind` is CREATE, MERGE or APPEND."""
        self.noted.append(path)
        self.store.write(f"{marker_folder(self.instant)}/{path}{_MARKER}{kind}", b"")


def marked_files(store: Store, instant: str) -> set[str] | None:
    """The paths of the files that an instant's markers name, None where it has no markers."""
    folder = marker_folder(instant)
    names: list[str] = []
    has_markers = False
    for info in store.walk(folder):
        has_markers = True
        name = info.path.removeprefix(f"{folder}/")
        if name.startswith("MARKERS") and "/" not in name:
            if name != "MARKERS.type":
                names += store.read(info.path).decode().splitlines()
        else:
            names.append(name)
    return {name.rpartition(_MARKER)[0] for name in names if _MARKER in name} if has_markers else None


def remove_markers(store: Store, instant: str) -> None:
    """Remove an instant's markers. Where that fails, they only take room: archival removes them."""
    with suppress(LakebedError, OSError):
        store.delete_folder(marker_folder(instant))
