"""Read: a plan of splits, made on the driver, and a function that reads one split as Arrow batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Generic, TypeVar

import pyarrow as pa

from lakebed.errors import ReadWarning
from lakebed.kernel.predicates.tree import Node
from lakebed.kernel.predicates.where import keep
from lakebed.kernel.streams import Overlap, interleave, interleave_stream
from lakebed.model.split import Split
from lakebed.verbs.many_splits import StreamedSplits, sizes_of

S = TypeVar("S", bound=Split)


@dataclass(frozen=True, slots=True)
class ReadPlan(Generic[S]):
    """Everything that a read needs, decided: tasks do not look at the table's metadata again.

    `read` is a picklable function that takes one split and yields its batches, each of exactly `schema`. Any process
    may call it, more than once, and may stop before the last batch. `warnings` are sentences for people, for example
    how far a reader has fallen behind or which rows are missing; `report` shows them. What only shows when a file is
    read, such as torn bytes, the process that reads it reports itself. `at_once` is how many requests are worth making
    at once where the files lie (`Store.at_once`), and `in_flight` how many bytes of open splits (`Store.in_flight`).
    `counted` tells how many rows splits have by the metadata alone: the sum, and the splits that it does not say it of.
    """

    schema: pa.Schema
    splits: Sequence[S]
    read: Callable[[S], Iterator[pa.RecordBatch]]
    warnings: tuple[str, ...] = ()
    at_once: int = 1
    in_flight: int = 256 << 20
    counted: Callable[[Sequence[S]], tuple[int, Sequence[S]]] | None = None


def run(plan: ReadPlan[S], threads: int) -> pa.RecordBatchReader:
    """Read a plan in this process, streaming, and decode with so many threads. Batches of one split stay in order.

    The plan's warnings are reported first.
    """
    report(plan, 4)
    return pa.RecordBatchReader.from_batches(plan.schema, batches(plan, threads))


def batches(plan: ReadPlan[S], threads: int) -> Iterator[pa.RecordBatch]:
    """The batches of a plan's splits. Those of one split stay in order."""
    overlap, splits = Overlap(plan.at_once, plan.in_flight), plan.splits
    if isinstance(splits, StreamedSplits) and not splits.is_whole:
        return interleave_stream(plan.read, ((split, split.size) for split in splits), threads, overlap)
    return interleave(plan.read, splits, threads, overlap, sizes_of(splits))


def first_rows(plan: ReadPlan[S], n: int) -> pa.Table:
    """`n` rows of a plan, or all where there are fewer. Splits are opened one after another until these are there."""
    report(plan, 4)
    chosen: list[pa.RecordBatch] = []
    left = n
    for batch in chain.from_iterable(map(plan.read, plan.splits)) if left else ():
        chosen.append(batch.slice(0, left))
        left -= chosen[-1].num_rows
        if not left:
            break
    return pa.Table.from_batches(chosen, plan.schema)


def count(plan: ReadPlan[S], threads: int) -> int:
    """How many rows a plan reads. The splits that `counted` knows the rows of are not opened."""
    report(plan, 4)
    known, rest = (0, plan.splits) if plan.counted is None else plan.counted(plan.splits)
    rows: int = sum(batch.num_rows for batch in batches(replace(plan, splits=rest), threads))
    return known + rows


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
