"""Whether a process runs, and a holder is gone: never where that cannot be told."""

import json
import os

import pytest

from lakebed.kernel.machine import Holder, is_gone, is_running


def test_this_process_runs() -> None:
    assert is_running(os.getpid())


@pytest.mark.parametrize(("process", "runs"), [(1, True), (1 << 22, False), (1 << 70, False), (0, True), (-1, True)])
def test_other_numbers(process: int, runs: bool) -> None:
    assert is_running(process) is runs


def test_a_holder_is_gone_when_its_block_ends() -> None:
    with Holder() as holder:
        mark = holder.mark({"of": "a lock"})
        assert not is_gone(mark) and json.loads(mark)["of"] == "a lock"
    assert is_gone(mark)


@pytest.mark.parametrize(
    ("changed", "gone"),
    [({"process": 1 << 22}, True), ({"process": 1}, False), ({"machine": "another"}, False), ({"process": "x"}, False)],
)
def test_marks_of_others(changed: dict[str, object], gone: bool) -> None:
    with Holder() as holder:
        mark = json.dumps({**json.loads(holder.mark()), **changed}).encode()
        assert is_gone(mark) is gone


@pytest.mark.parametrize("mark", [b"", b"{}", b"[]", b"\xff", b'{"machine": 1}'])
def test_what_is_no_mark_says_nothing(mark: bytes) -> None:
    assert not is_gone(mark)
