"""The lives of Hudi tables that run with every check: which engine's turn it is at which step, and what each table is.

python -m tests.interop.hudi_lives     prints which lives name each value of each field
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from tests.interop.hudi_shape import INDEXES, METADATA, PARTITIONINGS, VERSIONS, Shape

SERVICES = """
release insert, lakebed delete, lakebed plan_compaction, release compact, release upsert, release delete,
lakebed plan_compaction, lakebed compact, lakebed clean, release upsert, lakebed delete, lakebed cluster,
lakebed archive, release delete, release clean, lakebed upsert, release archive, release upsert
"""
"""Whose turn, and what: each engine goes on after the services of the other."""

HISTORY = """
release insert, lakebed delete, lakebed plan_compaction, release compact, release upsert, release delete,
lakebed plan_compaction, lakebed compact, lakebed clean, release upsert, lakebed delete, lakebed compact_logs,
lakebed savepoint, lakebed cluster, release upsert, lakebed restore, lakebed archive, release delete, release clean,
lakebed upsert, release archive, lakebed upkeep, release upkeep
"""
"""The same with a savepoint, a restore, and writers that clean, compact and archive."""

DEATHS = """
release insert, lakebed upsert requested, release upsert, lakebed delete inflight, release delete,
lakebed upsert files, release insert, lakebed delete metadata, release upsert, lakebed upsert completed, release upsert,
lakebed cluster metadata, release cluster, lakebed clean files, release clean, lakebed savepoint,
lakebed cluster files, release cluster, release upsert, lakebed restore, release upsert, release died, lakebed upsert
"""
"""A process of lakebed dies at the moment that is named, and the release goes on with what it left; at the end the
other way round."""

COMPACTION = """
release insert, lakebed upsert, lakebed plan_compaction, lakebed compact files, release compact, release upsert,
release plan_compaction, lakebed compact completed, release compact
"""
"""A compaction dies, and the release runs what was planned."""

TURNS = "release insert, lakebed upsert, release upsert, lakebed delete, lakebed insert, release delete"
MERGES = "release insert, lakebed upsert, release upsert, lakebed plan_compaction, release compact, lakebed upsert"
"""Few steps, for tables of which others live longer."""

MOR, COW = {"merge_on_read": True}, {"merge_on_read": False}
FIXED: dict[str, Any] = {"change_log": "", "locks": False, "positions": False, "layout": "z-order"}
"""What is the same in all lives that do not name it."""

Life = tuple[int, str, dict[str, Any]]
"""Seed, whose turns, what is not left to chance."""

LIVES: dict[str, list[Life]] = {
    "0.15.0": [
        (3, SERVICES, {**MOR, "index": "CONSISTENT", "partitioning": "hive", "metadata": "statistics"}),
        (4, TURNS, {**COW, "index": "GLOBAL_SIMPLE", "partitioning": "simple", "metadata": "off"}),
        (5, TURNS, {**COW, "index": "BLOOM", "partitioning": "none", "metadata": "files", "change_log": "op_key_only"}),
    ],
    "1.0.2": [
        (5, SERVICES, {**MOR, "version": 8, "index": "GLOBAL_BLOOM", "partitioning": "encoded", "metadata": "off"}),
        (5, COMPACTION, {**MOR, "version": 8, "index": "BUCKET", "partitioning": "simple", "positions": True}),
        (6, TURNS, {**COW, "version": 6, "index": "GLOBAL_BLOOM", "partitioning": "complex", "metadata": "files"}),
        (7, TURNS, {**COW, "version": 8, "index": "RECORD_INDEX", "partitioning": "custom"}),
        (8, MERGES, {**MOR, "version": 8, "index": "CONSISTENT", "partitioning": "timestamp", "metadata": "files"}),
    ],
    "1.1.1": [
        (7, HISTORY, {**MOR, "version": 9, "index": "RECORD_INDEX", "partitioning": "simple"}),
        (7, DEATHS, {**COW, "version": 9, "index": "SIMPLE", "partitioning": "hive", "metadata": "all"}),
        (8, TURNS, {**COW, "version": 9, "index": "BLOOM", "partitioning": "none", "change_log": "data_before_after"}),
        (8, TURNS, {**COW, "version": 8, "index": "BUCKET", "partitioning": "timestamp", "change_log": "data_before"}),
        (9, MERGES, {**MOR, "version": 6, "index": "BLOOM", "partitioning": "custom", "metadata": "files"}),
        (9, MERGES, {**MOR, "version": 9, "index": "GLOBAL_SIMPLE", "partitioning": "complex", "folds": True}),
        (9, MERGES, {**MOR, "version": 8, "index": "SIMPLE", "keys": "auto", "metadata": "statistics"}),
        (9, MERGES, {**MOR, "version": 9, "index": "BUCKET", "partitioning": "encoded", "non_blocking": True}),
    ],
}
"""Release -> its lives. What lakebed refuses, the release does."""

ALWAYS: Mapping[str, tuple[Any, ...]] = {
    "index": INDEXES,
    "partitioning": PARTITIONINGS,
    "metadata": METADATA,
    "change_log": ("", "op_key_only", "data_before", "data_before_after"),
    "log_format": ("avro", "parquet"),
    "event_time": (True, False),
    "merge_on_read": (True, False),
    "version": (6, 8, 9),
    "non_blocking": (True, False),
    "positions": (True, False),
    "folds": (True, False),
}
"""The values that some life has, by field."""


def shapes() -> list[tuple[str, Shape]]:
    """The tables of all lives, each with what happens to it."""
    return [
        (turns, shape_of(release, life)) for release, lives in LIVES.items() for life in lives for turns in (life[1],)
    ]


def shape_of(release: str, life: Life) -> Shape:
    """The table of a life."""
    seed, _, wanted = life
    return Shape.drawn(release, random.Random(seed), {**FIXED, **wanted})


def main() -> None:
    """Print the values of each field, and by them the release, version and type of the tables that have them."""
    found = [shape for _, shape in shapes()]
    assert {shape.version for shape in found if shape.release == "1.1.1"} == {*VERSIONS["1.1.1"]}
    for name, values in ALWAYS.items():
        for value in values:
            having = [shape for shape in found if getattr(shape, name) == value]
            tables = sorted(
                f"{shape.release} v{shape.version} {'mor' if shape.merge_on_read else 'cow'}" for shape in having
            )
            print(f"{name:14} {value!s:18} {', '.join(tables)}")


if __name__ == "__main__":
    main()
