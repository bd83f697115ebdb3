"""One table, several engines: releases of Hudi and lakebed take turns at every operation and service, and after each
step all of them read what a dictionary says. `tests/interop/hudi_life.py` runs many more such lives by hand."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.interop.hudi_actors import Bundle, Lakebed, release_of
from tests.interop.hudi_life import Life
from tests.interop.hudi_lives import FIXED, LIVES, SERVICES, shape_of
from tests.interop.hudi_shape import Shape

pytestmark = pytest.mark.timeout(900)  # a release starts a JVM and writes dozens of commits

CASES = [(release, *life) for release, lives in LIVES.items() for life in lives]


def _id(release: str, seed: int, turns: str, wanted: dict[str, Any]) -> str:
    shape = shape_of(release, (seed, turns, wanted))
    kind = "mor" if shape.merge_on_read else "cow"
    return f"{release}-v{shape.version}-{kind}-{shape.index}-{shape.partitioning}"


@pytest.mark.parametrize(("release", "seed", "turns", "wanted"), CASES, ids=[_id(*case) for case in CASES])
def test_every_engine_reads_what_any_of_them_wrote(
    release: str, seed: int, turns: str, wanted: dict[str, Any], tmp_path: Path
) -> None:
    shape = shape_of(release, (seed, turns, wanted))
    life = Life(release_of(release), shape, tmp_path / "life", seed)
    did = life.lakebed.changed
    life.play(turns)
    assert not life.refused
    deaths = sum(" dies after " in line for line in life.told)
    assert deaths == sum(len(turn.split()) == 3 for turn in turns.split(",")), life.told
    if turns is SERVICES:
        assert did.pop("clean") in (1, 2), life.told  # the second one is that of the end
        assert did == {"write": 3, "run": 1, "cluster": 1, "archive": 1}, life.told
    assert release in {line.split()[1] for line in life.told if line[0].isdigit()}


@pytest.mark.parametrize(("release", "version"), [("0.15.0", 6), ("1.1.1", 9)])
def test_releases_go_on_with_the_columns_that_a_write_of_lakebed_added(
    release: str, version: int, tmp_path: Path
) -> None:
    engine = release_of(release)
    fixed = {**FIXED, "version": version, "index": "SIMPLE", "partitioning": "simple", "metadata": "off"}
    shape = Shape.drawn(
        release, random.Random(1), {**fixed, "merge_on_read": True, "keys": ("id",), "event_time": True}
    )
    bundle, ours = Bundle(engine, shape, tmp_path / "t"), Lakebed(shape, tmp_path / "t")
    chance = random.Random(5)
    rows = pa.Table.from_pylist([shape.row(chance, key, 1) for key in range(6)], schema=shape.schema)
    bundle.write("insert", rows, first=True)
    place = rows.schema.get_field_index("n")
    wider = rows.slice(0, 3).set_column(place, "n", pa.array([1 << 40, None, 3]))
    wider = wider.append_column("extra", pa.array(["é", None, "x"]))
    ours.write("upsert", wider, {"lakebed.write.schema": "evolve"})
    columns = ["id", "n", "extra"]
    assert sorted(ours.read(columns), key=str) == sorted(bundle.read(columns), key=str)
    bundle.write("upsert", wider.slice(1, 2))
    ours.write("upsert", wider.slice(0, 1))
    bundle.schedule_compaction()
    bundle.run_compaction()
    found = sorted(ours.read(columns), key=str)
    assert found == sorted(bundle.read(columns), key=str)
    assert [row for row in found if row[0] == "k00"] == [["k00", str(1 << 40), "é"]]
