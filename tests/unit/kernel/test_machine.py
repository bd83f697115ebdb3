"""Whether a process runs: never "no" where that cannot be told."""

import os

import pytest

from lakebed.kernel.machine import is_running


def test_this_process_runs() -> None:
    assert is_running(os.getpid())


@pytest.mark.parametrize(("process", "runs"), [(1, True), (1 << 22, False), (1 << 70, False), (0, True), (-1, True)])
def test_other_numbers(process: int, runs: bool) -> None:
    assert is_running(process) is runs
