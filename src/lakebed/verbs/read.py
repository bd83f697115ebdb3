"""Read: the plan gives splits, the task gives Arrow batches, a stream commits the position it has reached."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import ReadWarning
from lakebed.kernel.predicates.where import keep
from lakebed.kernel.streams import interleave
from lakebed.model.split import Split

S = TypeVar("S", bound=Split)


@dataclass(frozen=True, slots=True)
class ReadPlan(Generic[S]):
    """A read, decided.

    `read` is a picklable function of one split that gives its batches, each of exactly `schema`; a worker calls it as
    it is. `warnings` are sentences for people: how far a reader has fallen behind, which rows are missing; `tell` gives
    them. What only shows when files are read, as torn bytes do, the reading process tells itself. Closing the batches
    early is safe.
    """

    schema: pa.Schema
    splits: tuple[S, ...]
    read: Callable[[S], Iterator[pa.RecordBatch]]
    warnings: tuple[str, ...] = ()


def run(plan: ReadPlan[S], threads: int) -> pa.RecordBatchReader:
    """The rows of a plan in this process, streamed; batches of one split stay in order. Its warnings are told first."""
    report(plan, 4)
    return pa.RecordBatchReader.from_batches(plan.schema, interleave(plan.read, plan.splits, threads))


def report(plan: ReadPlan[S], level: int = 3) -> None:
    """Give a plan's warnings through Python's `warnings`, as of the caller `level` - 1 frames up."""
    for text in plan.warnings:
        warnings.warn(ReadWarning(text), stacklevel=level)


def filtered(
    batches: Iterator[pa.RecordBatch], predicate: pc.Expression | None, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    """The rows that a predicate keeps, then only `columns`; empty batches are left out."""
    for batch in batches:
        kept = batch if predicate is None else keep(batch, predicate)
        if kept.num_rows:
            yield kept.select(columns)
