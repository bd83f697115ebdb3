"""The name mapping of a table: JSON that gives field ids to the columns of files without ids.

Rules: the specification's "Column Projection" and its appendix C, "Name Mapping Serialization". pyiceberg's own classes
for it load all of `pyiceberg.table` with them, which takes longer than a small read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakebed.kernel.decoding import decoding


@dataclass(frozen=True, slots=True)
class MappedField:
    """The names that a column has in files, its field id, and the columns inside it. None: files have the names, the
    table has no such column."""

    names: tuple[str, ...] = ()
    field_id: int | None = None
    fields: tuple[MappedField, ...] = ()


@dataclass(frozen=True, slots=True)
class NameMapping:
    """The mapped columns of a table, which may be none."""

    root: tuple[MappedField, ...] = ()

    @classmethod
    def parse(cls, text: str) -> NameMapping:
        """The mapping of a table property's text. ValueError, TypeError or KeyError for one that is none."""
        return cls(_fields(json.loads(text)))

    @classmethod
    def of_table(cls, text: str, table: str) -> NameMapping:
        """The mapping of a table's property. CorruptError that names the property for a text that is none."""
        what = "the property schema.name-mapping.default is not a name mapping"
        with decoding(what, table=table, todo="Set it to a valid name mapping, or remove it"):
            return cls.parse(text)


def _fields(documents: Any) -> tuple[MappedField, ...]:
    if not isinstance(documents, list):
        raise TypeError("a name mapping is a list of fields")
    return tuple(map(_field, documents))


def _field(document: Mapping[str, Any]) -> MappedField:
    names, field_id = document["names"], document.get("field-id")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError("the names of a mapped field are a list of texts")
    return MappedField(tuple(names), None if field_id is None else int(field_id), _fields(document.get("fields") or []))
