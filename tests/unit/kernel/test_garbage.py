"""The cycle collector is held inside a block, and only there; a worker's modules are kept out of its collections."""

import gc
import subprocess
import sys
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


def test_a_worker_freezes_its_modules_once_and_new_ones_when_they_came() -> None:
    counts = """if True:
        import gc, weakref
        from lakebed.kernel.garbage import freeze_what_is_loaded as freeze
        counts = []
        for module in ("json", "json", "csv", "csv"):
            __import__(module)
            freeze()
            counts.append(gc.get_freeze_count())

            class Ring:
                pass
            ring = Ring()
            ring.own = ring
            freeze()
            gone = weakref.ref(ring)
            del ring
            gc.collect()
            assert gone() is None, "what a task makes is still collected"
        assert 0 < counts[1] <= counts[0] < counts[3] <= counts[2], counts
    """
    subprocess.run([sys.executable, "-c", counts], check=True)
