"""Timestamps in files that are labelled with a wrong unit, or with none.

Releases before 1.1 wrote columns of Avro type `timestamp-millis` with their milliseconds unchanged and called them
microseconds, in base files and log blocks alike. They also left out the label of local timestamps. Hudi 1.1 repairs
that on read, by the table's schema (`SchemaRepair`, `AvroSchemaRepair`): a file's microseconds are milliseconds where
the table says so, and a bare long is the local timestamp that the table says it is.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from lakebed.formats.hudi.codec.schema import writer_schema

Units = Mapping[tuple[str, ...], str]
"""The Avro logical types of timestamps by path: column, then field names; `element` and `value` step into lists and
maps."""

NO_UNITS: Units = {}

_MILLIS = "timestamp-millis"
_MICROS = "timestamp-micros"
_LOCAL = {"local-timestamp-millis": "ms", "local-timestamp-micros": "us"}
_LABELLED_MICROS = pa.timestamp("us", "UTC")


def mislabelled_units(schema: str) -> Units:
    """The timestamps of a table's Avro schema (JSON text) that files can label wrongly."""
    return _mislabelled(schema) if schema else NO_UNITS


def stored_as(kind: pa.DataType, unit: str | None) -> pa.DataType:
    """The true type of values that a file says are of type `kind`, where the table's schema calls them `unit`."""
    if unit == _MILLIS and kind == _LABELLED_MICROS:
        return pa.timestamp("ms", "UTC")
    if unit in _LOCAL and kind == pa.int64():
        return pa.timestamp(_LOCAL[unit])
    return kind


def bare_unit(kind: pa.DataType, unit: str | None) -> str:
    """The unit of a bare number in a timestamp column of the table: "ms" or "us"."""
    return "ms" if unit is not None and unit.endswith("-millis") and pa.types.is_timestamp(kind) else "us"


def units_of_block(
    units: Units, schema: str, renames: Mapping[tuple[str, ...], str | None] = {}, inside: tuple[str, ...] = ()
) -> Units:
    """Those of a table's units that a log block can label wrongly.

    Not those that the block's own schema calls milliseconds: its decoder has converted them to microseconds. `inside`
    is the path of the table's columns in the block's records.
    """
    if not units:
        return units
    own = _all_units(schema)
    return {
        path: unit
        for path, unit in units.items()
        if unit != _MILLIS or own.get((*inside, *_source(path, renames))) == _MICROS
    }


def mislabels(schema: pa.Schema, units: Units) -> bool:
    """Whether a file of that schema has a column whose label is wrong, so that its statistics are wrong too."""
    names = set(schema.names)
    for path, unit in units.items():
        if path[0] in names:
            kind = _type_at(schema.field(path[0]).type, path[1:])
            if kind is not None and stored_as(kind, unit) != kind:
                return True
    return False


def _source(path: tuple[str, ...], renames: Mapping[tuple[str, ...], str | None]) -> tuple[str, ...]:
    return tuple(renames.get(path[: place + 1]) or name for place, name in enumerate(path))


def _type_at(kind: pa.DataType, path: tuple[str, ...]) -> pa.DataType | None:
    for name in path:
        if pa.types.is_struct(kind):
            place = kind.get_field_index(name)
            if place < 0:
                return None
            kind = kind.field(place).type
        elif name == "element" and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            kind = kind.value_type
        elif name == "value" and pa.types.is_map(kind):
            kind = kind.item_type
        else:
            return None
    return kind


@functools.lru_cache(maxsize=256)
def _mislabelled(schema: str) -> Units:
    return {path: unit for path, unit in _all_units(schema).items() if unit == _MILLIS or unit in _LOCAL}


@functools.lru_cache(maxsize=256)
def _all_units(schema: str) -> Units:
    columns = writer_schema(schema).columns
    return {path: unit for column in columns for path, unit in _walk(column.physical, (column.name,))}


def _walk(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The logical types in an Avro type that is written out in full, by path."""
    if isinstance(node, list):
        for branch in node:
            yield from _walk(branch, path)
    elif isinstance(node, dict):
        kind = node["type"]
        if kind == "record":
            for field in node["fields"]:
                yield from _walk(field["type"], (*path, field["name"]))
        elif kind == "array":
            yield from _walk(node["items"], (*path, "element"))
        elif kind == "map":
            yield from _walk(node["values"], (*path, "value"))
        elif kind == "long" and "logicalType" in node:
            yield path, node["logicalType"]
