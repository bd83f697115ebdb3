"""Hudi's lock by conditional writes on a real server: what is in its file, who gets it, and what becomes of a dead
holder's."""

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import CommitConflictError, CorruptError
from lakebed.formats.hudi.commit.options import COMMIT, commit_options
from lakebed.formats.hudi.commit.storage_lock import LOCK, storage_lock
from lakebed.kernel import clock
from lakebed.kernel.files import PutOutcome, Store, open_store
from lakebed.kernel.machine import this_machine
from lakebed.testing.faults import Crash, Fault, FaultyStore, Kind
from tests.objectstore.server import StoreServer

OWN = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider",
    "hoodie.time.generator.max_expected_clock_skew_ms": "0",
    "hoodie.metadata.enable": "false",
}
NO_WAIT = {**OWN, "hoodie.write.lock.wait_time_ms": "0"}
ROWS = pa.table({"id": ["a"], "v": [1]})


@pytest.fixture
def table(store_server: StoreServer) -> Table:
    return lakebed.create(store_server.url(), "hudi", ROWS.schema, ["id"], options=store_server.direct)


@pytest.fixture
def store(table: Table, store_server: StoreServer) -> Store:
    return open_store(table.location, store_server.direct)


def content(store: Store) -> dict[str, Any]:
    return dict(json.loads(store.read(LOCK)))


def of_the_jvm(store: Store, ends_in: float, expired: bool = False) -> dict[str, Any]:
    """The lock of another engine, which ends in so many seconds."""
    lock = {"expired": expired, "validUntil": int((time.time() + ends_in) * 1000), "owner": "6a2f-not-a-mark"}
    store.write(LOCK, json.dumps(lock).encode())
    return lock


@contextmanager
def holding(store: Store, **options: str) -> Iterator[Any]:
    with storage_lock(store, COMMIT.parse(commit_options({**NO_WAIT, **options})), "write again") as held:
        yield held


def test_the_file_says_what_hudi_reads_and_stays_as_expired(table: Table, store: Store) -> None:
    table.write(ROWS, options=OWN)
    lock = content(store)
    assert {name: type(value) for name, value in lock.items()} == {"expired": bool, "validUntil": int, "owner": str}
    assert lock["expired"] and 290 < lock["validUntil"] / 1000 - time.time() <= 300
    with holding(store) as held:
        held()
        assert not content(store)["expired"]
        with pytest.raises(CommitConflictError, match=re.escape(this_machine())), holding(store):
            pass


def test_a_lock_of_another_engine_is_respected_until_it_ends(table: Table, store: Store) -> None:
    lock = of_the_jvm(store, ends_in=0)  # and half a second of drift
    with pytest.raises(CommitConflictError, match="6a2f"):
        table.write(ROWS, options=NO_WAIT)
    assert content(store) == lock and table.history() == []
    table.write(ROWS, options=OWN)  # waits for less than a second
    of_the_jvm(store, ends_in=300, expired=True)
    table.write(ROWS, options=NO_WAIT)
    store.write(LOCK, b"{}")
    with pytest.raises(CorruptError, match="table_lock"):
        table.write(ROWS, options=NO_WAIT)


def test_this_machines_clock_alone_breaks_no_lock(table: Table, store: Store) -> None:
    of_the_jvm(store, ends_in=300)
    with clock.set_clock(lambda: time.time() + 3600), pytest.raises(CommitConflictError, match="6a2f"), holding(store):
        pass


def test_the_lock_of_a_process_that_was_killed_here_is_free_at_once(store: Store) -> None:
    for kind in (Kind.CRASH_BEFORE, Kind.CRASH_AFTER):  # dies as it releases the lock
        dying = FaultyStore(store, Fault(2, kind, frozenset({"put_if_absent", "replace"})))
        with pytest.raises(Crash), holding(dying):
            pass
        with holding(store) as held:
            held()


def test_an_answer_that_is_lost_is_looked_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):  # creates the file, then replaces it
        name = "replace" if store.exists(LOCK) else "put_if_absent"
        lost = FaultyStore(store)
        real = getattr(lost, name)

        def silent(*given: Any, real: Any = real) -> PutOutcome:
            real(*given)
            return PutOutcome.UNKNOWN

        monkeypatch.setattr(lost, name, silent)
        with holding(lost, **{"hoodie.write.lock.wait_time_ms": "5000"}) as held:
            held()
    assert content(store)["expired"]


def test_whoever_lost_the_lock_may_go_no_further(store: Store) -> None:
    with holding(store) as held:
        taken = of_the_jvm(store, ends_in=300)
        with pytest.raises(CommitConflictError, match="6a2f"):
            held()
    assert content(store) == taken  # and it is not released


def test_the_holder_renews_it(store: Store) -> None:
    times = {
        "hoodie.write.lock.storage.renew.interval.secs": "1",
        "hoodie.write.lock.storage.validity.timeout.secs": "10",
    }
    with holding(store, **times) as held:
        first = content(store)
        until = time.monotonic() + 10
        while content(store) == first and time.monotonic() < until:
            time.sleep(0.05)
        assert content(store)["validUntil"] > first["validUntil"]
        held()


def test_of_two_who_replace_one_version_one_does(store: Store) -> None:
    of_the_jvm(store, ends_in=0)
    _, version = store.read_version(LOCK)
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda n: store.replace(LOCK, b"%d" % n, version), range(4)))
    assert sorted(outcomes) == [PutOutcome.CREATED, *[PutOutcome.EXISTS] * 3]
    store.delete(LOCK)
    assert store.replace(LOCK, b"x", version) is PutOutcome.EXISTS


def test_two_writers_take_turns(table: Table, store_server: StoreServer) -> None:
    def write(n: int) -> None:
        opened = lakebed.open(table.location, store_server.direct)
        opened.write(
            pa.table({"id": [f"k{n}"], "v": [n]}), options={**OWN, "hoodie.write.num.retries.on.conflict.failures": "5"}
        )

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, range(4)))
    assert sorted(table.read().read_all()["v"].to_pylist()) == [0, 1, 2, 3]
