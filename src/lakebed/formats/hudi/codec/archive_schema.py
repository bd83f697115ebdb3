"""The schema of archived records of timeline layout 1, `HoodieArchivedMetaEntry`, and the record types in it.

It is, character by character, the schema that Hudi 1.0.2 writes into every archive block (`archived_meta_entry.avsc`).
Older and newer releases resolve it by the names of its fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import fastavro

ENTRY = "HoodieArchivedMetaEntry"


@cache
def entry_schema() -> str:
    """The schema of archived records, as it stands in the header of an archive block."""
    return files(__package__).joinpath("archived_meta_entry.avsc").read_text("utf-8").strip()


@cache
def record_types() -> Mapping[str, Any]:
    """The record types of the schema by their short names."""
    types: dict[str, Any] = {}

    def visit(kind: Any) -> None:
        if isinstance(kind, list):
            for branch in kind:
                visit(branch)
        elif isinstance(kind, dict):
            if kind.get("type") == "record":
                types[kind["name"]] = kind
                for field in kind["fields"]:
                    visit(field["type"])
            else:
                for inner in (kind.get("items"), kind.get("values"), kind.get("type")):
                    if isinstance(inner, dict | list):
                        visit(inner)

    visit(json.loads(entry_schema()))
    return types


@cache
def parsed_type(name: str) -> Any:
    """A record type alone, as fastavro takes it: types that it only refers to are written out inside it."""
    return fastavro.parse_schema(written_out(record_types()[name]))


def written_out(kind: Any) -> Any:
    """A type of the schema with each named type defined where it is first used."""
    return _expanded(kind, set())


def _expanded(kind: Any, seen: set[str]) -> Any:
    """The type, with each named type defined where it is first used."""
    if isinstance(kind, list):
        return [_expanded(branch, seen) for branch in kind]
    if isinstance(kind, str):
        short = kind.rpartition(".")[2]
        if short not in record_types() or short in seen:
            return kind
        return _expanded(record_types()[short], seen)
    if not isinstance(kind, dict):
        return kind
    if kind.get("type") == "record":
        if kind["name"] in seen:
            return kind["name"]
        seen.add(kind["name"])
        return {**kind, "fields": [{**f, "type": _expanded(f["type"], seen)} for f in kind["fields"]]}
    return {key: _expanded(value, seen) if key in ("type", "items", "values") else value for key, value in kind.items()}
