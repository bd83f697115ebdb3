"""One Paimon table, several engines: lakebed, Paimon's Java bundle and pypaimon take turns at every operation and
service, and after each step all of them read what a model says. `tests/interop/paimon_life.py` runs many more such
lives by hand."""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import PaimonJvm, Pypaimon
from tests.interop.paimon_life import Life
from tests.interop.paimon_shape import ENGINES, FORMATS, MODES, PRODUCERS, VECTORS, Shape

TURNS = """
lakebed insert, jvm upsert, pypaimon insert, lakebed compact, jvm delete, lakebed upsert, jvm tag, jvm compact,
jvm alter, lakebed delete, jvm overwrite, lakebed upsert, lakebed compact, jvm expire, lakebed tag, jvm upsert,
lakebed overwrite, jvm rollback, lakebed upsert, lakebed expire, jvm untag, jvm upsert, jvm compact, lakebed rollback,
lakebed insert
"""
"""Whose turn, and what. What an engine cannot do, another does."""

FALLS = """
lakebed insert, jvm upsert, lakebed die, jvm fork, lakebed upsert, lakebed die, jvm sweep, lakebed rescale, jvm delete,
lakebed fork, lakebed die, jvm upsert, lakebed alter, jvm alter, lakebed die, lakebed sweep, jvm compact
"""
"""lakebed dies, branches come and go, buckets change, and what is left over is removed."""

LIVES: list[dict[str, Any]] = [
    {"mode": "fixed", "engine": "deduplicate", "producer": "none", "file_format": "parquet", "sequence": True},
    {"mode": "fixed", "engine": "deduplicate", "producer": "input", "file_format": "avro", "write_only": True},
    {"mode": "fixed", "engine": "deduplicate", "producer": "lookup", "file_format": "mixed", "vectors": "32"},
    {"mode": "fixed", "engine": "aggregation", "producer": "lookup", "file_format": "parquet", "vectors": "64"},
    {"mode": "fixed", "engine": "first-row", "producer": "lookup", "file_format": "avro"},
    {"mode": "fixed", "engine": "partial-update", "producer": "full-compaction", "file_format": "orc"},
    {"mode": "dynamic", "engine": "deduplicate", "producer": "lookup", "file_format": "orc", "write_only": True},
    {"mode": "dynamic", "engine": "partial-update", "producer": "lookup", "file_format": "parquet"},
    {"mode": "crossing", "producer": "none", "file_format": "parquet"},
    {"mode": "crossing", "producer": "full-compaction", "file_format": "mixed"},
    {"mode": "postponed", "engine": "deduplicate", "producer": "none", "file_format": "parquet"},
    {"mode": "append", "file_format": "parquet"},
    {"mode": "append-fixed", "file_format": "orc"},
]
FIXED: dict[str, Any] = {"vectors": "off", "sequence": False, "write_only": False}
"""What is the same in all lives that do not name it."""
FALLING = (2, 7)
"""The lives whose engines fall, too."""
SHAPES = [Shape.drawn(random.Random(seed), {**FIXED, **wanted}) for seed, wanted in enumerate(LIVES)]


def test_every_kind_of_table_has_a_life() -> None:
    fields = {"mode": MODES, "engine": ENGINES, "producer": PRODUCERS, "file_format": FORMATS, "vectors": VECTORS}
    for name, values in fields.items():
        assert {getattr(shape, name) for shape in SHAPES} >= {*values}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(len(SHAPES)), ids=[str(shape).replace(" ", "-") for shape in SHAPES])
def test_every_engine_reads_what_any_of_them_wrote(
    seed: int, paimon_jvm: PaimonJvm, pypaimon: Pypaimon, tmp_path: Path
) -> None:
    Life(SHAPES[seed], tmp_path / "db.db" / "life", seed, paimon_jvm, pypaimon).play(TURNS)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", FALLING, ids=[str(SHAPES[seed]).replace(" ", "-") for seed in FALLING])
def test_deaths_and_branches_change_nothing_for_any_engine(
    seed: int, paimon_jvm: PaimonJvm, pypaimon: Pypaimon, tmp_path: Path
) -> None:
    Life(SHAPES[seed], tmp_path / "db.db" / "life", seed, paimon_jvm, pypaimon).play(FALLS)
