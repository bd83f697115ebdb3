"""What once crashed, hung or took too much stays mended, and the fuzzer's targets take whole inputs.

`./run fuzz` looks for more. Each file of `corpus/TARGET/` is an input that once was a fault, named by what it is.
"""

import faulthandler
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest

from lakebed.errors import LakebedError, PredicateError
from lakebed.kernel.predicates.where import parse_where
from tests.fuzz.bounds import bound_of
from tests.fuzz.replay import hangs
from tests.fuzz.targets import TARGETS, chosen

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(path for path in CORPUS.rglob("*") if path.is_file())
_HANG_SECONDS = 120


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    """A loop in a library cannot be interrupted: say where it is, and end the process."""
    faulthandler.dump_traceback_later(_HANG_SECONDS, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_was_a_fault_ends_in_bounds(path: Path) -> None:
    target, data = TARGETS[path.parent.name], path.read_bytes()
    for seed in islice(target.seeds(), 1):
        target.decode(seed)  # imports and caches are not the input's doing
    held = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        with suppress(LakebedError):
            target.decode(data)
        peak = tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes() - held
    finally:
        tracemalloc.stop()
    assert peak <= bound_of(target.name).memory(len(data))


@pytest.mark.parametrize("name", TARGETS)
def test_whole_inputs_decode_and_mutated_ones_end_by_name(name: str) -> None:
    target, chance, count = TARGETS[name], random.Random(7), 0
    for seed in target.seeds():
        target.decode(seed)
        count += 1
        with suppress(LakebedError):
            target.decode(target.mutate(seed, chance))
    assert count


def test_the_corpus_stays_small_and_belongs_to_targets() -> None:
    assert sum(path.stat().st_size for path in FILES) < 300_000
    assert {path.parent.name for path in FILES} <= TARGETS.keys()
    assert len(chosen("")) == len(TARGETS) and {t.codec for t in chosen("hudi-log")} == {"hudi-log"}


def test_a_condition_without_end_does_not_overflow_the_stack() -> None:
    schema = pa.schema([("id", pa.int64())])
    for condition in ("id = 1 or ", "1 + ", "id = -1 or "):
        with pytest.raises(PredicateError, match="more than 10000 operators"):
            parse_where(condition * 10_001 + "id = 1", schema)
    assert parse_where(f"id in ({', '.join(map(str, range(-1500, 1500)))})", schema) is not None


def test_an_input_that_ends_does_not_hang(tmp_path: Path) -> None:
    """The fuzzer goes by the clock on the wall, so what it calls a hang is tried again by processor time."""
    given = tmp_path / "input"
    given.write_bytes(next(iter(TARGETS["kernel-avro"].seeds())))
    assert not hangs("kernel-avro", given)
    with pytest.raises(SystemExit, match="kernel-none cannot be run"):
        hangs("kernel-none", given)
