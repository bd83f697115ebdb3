"""The classes of the SQL table functions that Spark sees: thin wrappers around `procedures`, which does the work.

They travel by value, like the data sources, and load lakebed only inside their methods. So a worker without lakebed can
say so in one line.

Spark calls `analyze` whenever it analyzes a query, also for EXPLAIN and for a view, in a Python process of the driver:
there nothing is done but to check the arguments and to name the columns. `eval` runs in a task. What it is to do comes
from `analyze`, with a token that is new for each analysis, so that a task that runs again knows its call.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from lakebed.spark import worker


@dataclass
class Analyzed(AnalyzeResult):
    """The columns of a call, and the call itself, packed."""

    call: bytes = b""


def table_function(name: str, catalogs: Mapping[str, Mapping[str, str]]) -> type[Any]:
    """The class of one function. `catalogs` is what the session knows of catalogs."""

    class TableFunction:
        def __init__(self, analyzed: Analyzed) -> None:
            self._call = analyzed.call

        @staticmethod
        def analyze(*arguments: AnalyzeArgument, **named: AnalyzeArgument) -> Analyzed:
            given = [_plain(argument) for argument in arguments]
            by_name = {key: _plain(argument) for key, argument in named.items()}
            deferred = worker.Deferred("lakebed.spark.procedures", "analyzed", name, catalogs, given, by_name)
            schema, call = worker.unpack(worker.pack(deferred))
            return Analyzed(schema, call=call)

        def eval(self, *arguments: Any, **named: Any) -> Iterator[tuple[Any, ...]]:
            yield from worker.unpack(worker.pack(worker.Deferred("lakebed.spark.procedures", "run", self._call)))

    return TableFunction


def _plain(argument: AnalyzeArgument) -> tuple[bool, Any]:
    """Whether an argument is a constant, and its value."""
    return argument.isConstantExpression and not argument.isTable, argument.value


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # pyspark's copy is untyped
