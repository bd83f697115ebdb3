"""A sort order of a table: its JSON as a value.

Rules: the specification's "Sorting" and the sort order JSON of its appendix C. pyiceberg's own classes for it load all
of `pyiceberg.table` with them, which takes longer than most commands of a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.transforms import Transform, parse_transform

_DESCENDING = {"asc": False, "desc": True}
_NULLS_FIRST = {"nulls-first": True, "nulls-last": False}


@dataclass(frozen=True, slots=True)
class SortField:
    """One key of a sort order: a transform of the field `source_id`, and which values come first."""

    source_id: int
    transform: Transform[Any, Any]
    descending: bool = False
    nulls_first: bool = True

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> SortField:
        """The key of its JSON. ValueError, TypeError or KeyError for one that is none, or has several columns.

        Without a direction it ascends; without an order of nulls they come first where it ascends, else last.
        """
        sources = [document["source-id"]] if "source-id" in document else document["source-ids"]
        if len(sources) != 1:
            raise ValueError("a sort field has a transform of several columns")
        descending = _choice(document, "direction", _DESCENDING, default=False)
        nulls_first = _choice(document, "null-order", _NULLS_FIRST, default=not descending)
        return cls(int(sources[0]), parse_transform(document.get("transform", "identity")), descending, nulls_first)

    def to_json(self) -> dict[str, Any]:
        """The key as the metadata document has it."""
        return {
            "source-id": self.source_id,
            "transform": str(self.transform),
            "direction": "desc" if self.descending else "asc",
            "null-order": "nulls-first" if self.nulls_first else "nulls-last",
        }


@dataclass(frozen=True, slots=True)
class SortOrder:
    """The keys by which rows are sorted, the weightiest first. None for a table without an order."""

    fields: tuple[SortField, ...] = ()

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> SortOrder:
        """The order of its JSON. ValueError, TypeError or KeyError for one that is none."""
        return cls(tuple(map(SortField.parse, document.get("fields") or ())))


def _choice(document: Mapping[str, Any], key: str, values: Mapping[str, bool], default: bool) -> bool:
    text = document.get(key)
    if not text:
        return default
    if text not in values:
        raise ValueError(f"a sort field has {key} {text!r}")
    return values[text]
