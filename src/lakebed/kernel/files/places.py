"""The places that a table may touch: its own folder, and those that a catalog or the caller named.

A table's metadata holds locations of data files, statistics, earlier metadata and folders to write to. These are data:
they never widen what lakebed reads, lists, writes or deletes. See docs/security.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakebed.errors import UnsupportedError, UsageError
from lakebed.kernel.files.location import parse_location

PLACES = "lakebed.storage.places"
"""The option in which a caller names more places, separated by commas."""


@dataclass(frozen=True, slots=True)
class Places:
    """The roots that a table may touch, as absolute paths and URLs without a trailing slash. `table` is for errors."""

    table: str
    roots: tuple[str, ...]

    def root_of(self, location: str) -> str | None:
        """The root that a location in that spelling is below, None when it is outside."""
        if ".." in location.split("/"):
            return None
        return next((root for root in self.roots if is_below(location, root)), None)

    def refused(self, location: str) -> UnsupportedError:
        """The error for a location outside the roots. The location has not been touched."""
        return UnsupportedError(
            "the table names a place outside its own folder",
            table=self.table,
            file=location,
            why="a table's metadata cannot widen what lakebed reads, lists, writes or deletes",
            todo=f"If you trust the table, name the folder in the option {PLACES!r}",
        )


def is_below(location: str, root: str) -> bool:
    """Whether a location is a root or below it. Both must be in the same spelling."""
    return location == root or location.startswith(root if root.endswith("/") else f"{root}/")


def named_places(options: Mapping[str, str], more: Iterable[str] = ()) -> tuple[str, ...]:
    """The places that the caller named in the option `lakebed.storage.places`, and `more`, in one spelling.

    UsageError for an empty place, UnsupportedError for one that no store serves.
    """
    texts = [text.strip() for key, value in options.items() if key.lower() == PLACES for text in value.split(",")]
    if "" in texts:
        raise UsageError(f"option {PLACES!r} names an empty place", todo="Give folders, separated by commas")
    return tuple(dict.fromkeys(parse_location(text).text for text in (*texts, *more)))
