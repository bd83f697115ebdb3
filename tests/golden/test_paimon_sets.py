"""Unions of bitmaps and sketches equal those of Paimon's Java engine (set_vectors.jsonl)."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakebed.errors import UnsupportedError, UsageError
from lakebed.formats.paimon.codec.roaring64 import chunks_from_bytes, chunks_to_bytes
from lakebed.formats.paimon.merge import sets
from lakebed.formats.paimon.merge.aggregates import Aggregate
from lakebed.formats.paimon.merge.ordering import Runs
from tests.golden import HERE

LINES = (HERE / "paimon" / "set_vectors.jsonl").read_text(encoding="utf-8").splitlines()
VECTORS: list[dict[str, str]] = [json.loads(line) for line in LINES]
SKETCHES = ("theta_sketch", "hll_sketch") if sets.datasketches is not None else ()  # not on every Python
ONE_KEY = Runs(np.array([0]), np.array([2]))


def united(function: str, *values: bytes | None) -> Any:
    column = pa.array(values, pa.binary())
    return Aggregate("c", function).apply(column, np.zeros(len(values), np.bool_), ONE_KEY)[0].as_py()


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["function"] in SKETCHES], ids=lambda v: v["function"])
def test_unions_of_sketches_have_the_same_bytes(vector: dict[str, str]) -> None:
    first, second, union = (bytes.fromhex(vector[name]) for name in ("one", "two", "union"))
    assert united(vector["function"], first, second) == union
    assert united(vector["function"], first, None) == first


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["function"] == "rbm64"])
def test_unions_of_bitmaps_have_the_same_numbers(vector: dict[str, str]) -> None:
    first, second, union = (bytes.fromhex(vector[name]) for name in ("one", "two", "union"))
    result = united("rbm64", first, second)
    assert chunks_from_bytes(result) == chunks_from_bytes(union)
    for data in (first, second, union):
        again = chunks_to_bytes(chunks_from_bytes(data))
        assert chunks_from_bytes(again) == chunks_from_bytes(data)
        assert len(again) <= len(data)  # theirs keeps room for more containers
    again = chunks_to_bytes(chunks_from_bytes(first))
    assert again == first or len(again) < len(first)


@pytest.mark.parametrize("function", ["rbm32", "rbm64", *SKETCHES])
def test_other_bytes_are_an_error_that_names_the_column(function: str) -> None:
    with pytest.raises(UsageError, match="column 'c'"):
        united(function, b"\x01\x05nonsense", b"\x01\x05nonsense")
    whole = next(bytes.fromhex(v["union"]) for v in VECTORS if v["function"] == function or function == "rbm32")
    with pytest.raises(UsageError, match="column 'c'"):
        united(function, whole[:-1], whole[:-1])


def test_a_theta_sketch_that_takes_updates_is_refused() -> None:
    with pytest.raises(UsageError, match="only compact sketches"):
        united("theta_sketch", bytes.fromhex("c3030205040c0000"), bytes.fromhex("c3030205040c0000"))


def test_without_the_package_tables_of_sketches_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "datasketches", None)
    with pytest.raises(UnsupportedError, match=r"lakebed\[sketches\]"):
        sets.SET_FUNCTIONS["hll_sketch"].check("c")
    sets.SET_FUNCTIONS["rbm64"].check("c")
