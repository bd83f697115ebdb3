"""Read: a plan of splits, made on the driver, and a function that reads one split as Arrow batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from lakebed.errors import ReadWarning
from lakebed.kernel.predicates.tree import Node
from lakebed.kernel.predicates.where import keep
from lakebed.kernel.streams import Overlap, interleave
from lakebed.model.split import Split
from lakebed.verbs.many_splits import sizes_of

S = TypeVar("S", bound=Split)


@dataclass(frozen=True, slots=True)
class ReadPlan(Generic[S]):
    """Everything that a read needs, decided: tasks do not look at the table's metadata again.

    `read` is a picklable function that takes one split and yields its batches, each of exactly `schema`. Any process
    may call it, more than once, and may stop before the last batch. `warnings` are sentences for people, for example
    how far a reader has fallen behind or which rows are missing; `report` shows them. What only shows when a file is
    read, such as torn bytes, the process that reads it reports itself. `at_once` is how many requests are worth making
    at once where the files lie (`Store.at_once`), and `in_flight` how many bytes of open splits (`Store.in_flight`).
    """

    schema: pa.Schema
    splits: Sequence[S]
    read: Callable[[S], Iterator[pa.RecordBatch]]
    warnings: tuple[str, ...] = ()
    at_once: int = 1
    in_flight: int = 256 << 20


def run(plan: ReadPlan[S], threads: int) -> pa.RecordBatchReader:
    """Read a plan in this process, streaming, and decode with so many threads. Batches of one split stay in order.

    The plan's warnings are reported first.
    """
    report(plan, 4)
    return pa.RecordBatchReader.from_batches(plan.schema, batches(plan, threads))


def batches(plan: ReadPlan[S], threads: int) -> Iterator[pa.RecordBatch]:
    """The batches of a plan's splits. Those of one split stay in order."""
    overlap = Overlap(plan.at_once, plan.in_flight)
    return interleave(plan.read, plan.splits, threads, overlap, sizes_of(plan.splits))


def report(plan: ReadPlan[S], level: int = 3) -> None:
    """Give a plan's warnings through Python's `warnings`, as coming from the caller `level` - 1 frames up."""
    for sentence in plan.warnings:
        warnings.warn(ReadWarning(sentence), stacklevel=level)


def filtered(rows: Iterator[pa.RecordBatch], predicate: Node | None, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Filter batches by a predicate and then keep only `columns`. Batches without a row are left out."""
    for batch in rows:
        kept = batch if predicate is None else keep(batch, predicate)
        if kept.num_rows:
            yield kept.select(columns)
