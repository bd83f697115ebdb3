"""The results of verbs as Spark rows: each field is a column, and values inside become arrays and structs."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

from pyspark.sql import types as spark

_PLAIN: Mapping[Any, spark.DataType] = {int: spark.LongType(), str: spark.StringType(), bool: spark.BooleanType()}


def result_schema(kind: type[Any]) -> spark.StructType:
    """The columns of a dataclass."""
    hints = typing.get_type_hints(kind)
    return spark.StructType([spark.StructField(f.name, _type(hints[f.name]), False) for f in dataclasses.fields(kind)])


def result_row(result: Any) -> list[Any]:
    """The values of a dataclass, in the order of its columns. They are plain: lists, dicts, texts and numbers."""
    return [_value(getattr(result, field.name)) for field in dataclasses.fields(result)]


def _type(hint: Any) -> spark.DataType:
    if dataclasses.is_dataclass(hint):
        return result_schema(typing.cast(type[Any], hint))
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return spark.ArrayType(_type(arguments[0]), False)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return spark.MapType(_type(arguments[0]), _type(arguments[1]), False)
    return _PLAIN[hint]


def _value(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return result_row(value)
    if isinstance(value, tuple | list):
        return [_value(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value
