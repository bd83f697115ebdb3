"""The cycle collector is held inside a block, and only there."""

import gc
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakebed.kernel.garbage import no_cycles


def test_collections_wait_for_the_outermost_block() -> None:
    assert gc.isenabled()
    with no_cycles():
        with no_cycles():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_lets_go_of_it() -> None:
    with pytest.raises(KeyError), no_cycles():
        raise KeyError
    assert gc.isenabled()


def test_who_had_it_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with no_cycles():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_threads_share_it() -> None:
    def block(_: int) -> bool:
        with no_cycles():
            return gc.isenabled()

    with ThreadPoolExecutor(8) as pool:
        assert not any(pool.map(block, range(200)))
    assert gc.isenabled()
