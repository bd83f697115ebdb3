"""The simulation can fail: what breaks a promise is found within few seeds, and a failure shrinks to a short schedule
that fails again by its command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from lakebed.formats.hudi.commit import transaction
from lakebed.formats.paimon.commit import attempt
from lakebed.formats.paimon.expire import orphans
from lakebed.kernel.commit import claim
from lakebed.kernel.files import PutOutcome, Store
from lakebed.testing.simulation import Report, Schedule, drawn, simulate
from lakebed.testing.simulation.__main__ import main
from lakebed.testing.simulation.memory import MemoryStore

Planted = Callable[[], AbstractContextManager[Any]]
SEEDS = 10
"""Within how many seeds each fault must be found."""


def put_replaces(self: MemoryStore, path: str, data: bytes) -> PutOutcome:
    self.write(path, data)
    return PutOutcome.CREATED


def never(*_: Any, **__: Any) -> None:
    return None


def all_paths(_: Store, paths: Iterator[str], __: float) -> list[str]:
    return [*paths]


PLANTED: dict[str, tuple[str, int, Planted]] = {
    "puts that replace, Paimon": ("paimon", 0, lambda: patch.object(MemoryStore, "put_if_absent", put_replaces)),
    "puts that replace, Iceberg": ("iceberg", 0, lambda: patch.object(MemoryStore, "put_if_absent", put_replaces)),
    "a claim that believes, Iceberg": (
        "iceberg", 15, lambda: patch.object(claim, "_look", lambda *_: PutOutcome.CREATED)
    ),
    "commits without a check of files, Paimon": ("paimon", 55, lambda: patch.object(attempt, "check_conflicts", never)),
    "commits without a check of groups, Hudi": (
        "hudi", 20, lambda: patch.object(transaction, "conflict_at_commit", lambda *_: "")
    ),
    "orphans of any age, Paimon": ("paimon", 35, lambda: patch.object(orphans, "older_than", all_paths)),
}  # fmt: skip
"""Each with its format and the first of the seeds that look for it."""


def found(format: str, first: int, planted: Planted) -> Report | None:
    with planted():
        reports = (simulate(drawn(format, seed)) for seed in range(first, first + SEEDS))
        return next((one for one in reports if one.failure), None)


@pytest.mark.parametrize("name", [*PLANTED])
def test_a_planted_fault_is_found(name: str) -> None:
    assert found(*PLANTED[name]) is not None


def test_a_failure_shrinks_to_a_short_schedule_that_its_command_runs_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    format, first, planted = PLANTED["puts that replace, Iceberg"]
    with planted():
        options = ["--format", format, "--first", str(first), "--tries", "40", "--folder", str(tmp_path)]
        assert main(options) == 1
        told = capsys.readouterr().out
        assert "./run simulate --replay" in told and "seed" in told
        kept = next(tmp_path.glob("*.json"))
        short = Schedule.from_json(kept.read_text())
        assert short.length < drawn(format, short.seed).length
        assert main(["--replay", str(kept)]) == 1
    assert main(["--replay", str(kept)]) == 0
