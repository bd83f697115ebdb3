"""An expiry reads each manifest and each manifest list once, whatever else names it: its cost is linear."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

import lakebed
from lakebed import Table
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Crash, Fault, FaultyStore, Kind
from tests.tables.paimon.small import Make, rows

AT_ONCE = {
    "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.expire.limit": "10000",
    "lakebed.owed.time-retained": "0 ms",
}  # fmt: skip
CHANGELOGS = {**AT_ONCE, "changelog.num-retained.max": "20", "changelog.time-retained": "1 h"}
ORPHANS = {"lakebed.expire.what": "orphan-files"}


def filled(make: Make, snapshots: int, **options: str) -> Table:
    """Snapshots of which every second one overwrites, with a tag at every tenth one and a branch."""
    table = make(write__only="true", bucket="1", manifest_merge__min__count="5", **options)
    for number in range(snapshots):
        table.write(rows(("a", number, "v", 1)), "overwrite" if number % 2 else "append")
        if number % 10 == 5:
            table.tag(f"t{number}")
    table.branch("b", "tag:t5")
    branch = lakebed.open(table.location, {"branch": "b"})
    for number in range(3):
        branch.write(rows(("b", number, "v", 1)))
    return table


def reads(store: FaultyStore) -> Counter[str]:
    return Counter(call.path for call in store.calls if call.verb == "read" and call.path.startswith("manifest/"))


@pytest.mark.parametrize("producer", ["none", "input"])
def test_each_manifest_is_read_once(make: Make, tmp_path: Path, producer: str) -> None:
    calls = []
    for snapshots in (10, 20):
        table = filled(make, snapshots, changelog__producer=producer)
        for place, options in enumerate((AT_ONCE, CHANGELOGS, ORPHANS)):
            copy = shutil.copytree(table.location, tmp_path / f"{snapshots}-{place}")
            store = FaultyStore(open_store(copy))
            lakebed.open(store).expire(options=options)
            counted = reads(store)
            assert len(counted) >= snapshots and set(counted.values()) == {1}, options
            calls.append(len(store.calls))
    for few, many in zip(calls[:3], calls[3:], strict=True):
        assert many < 2.3 * few


def test_an_expiry_that_finishes_another_reads_each_once_for_both(make: Make) -> None:
    table = filled(make, 20)
    died = FaultyStore(open_store(table.location), Fault(3, Kind.CRASH_AFTER, frozenset({"delete"})))
    with pytest.raises(Crash):
        lakebed.open(died).expire(options=AT_ONCE)
    store: Store = FaultyStore(open_store(table.location))
    lakebed.open(store).expire(options=AT_ONCE)
    assert isinstance(store, FaultyStore) and max(reads(store).values()) <= 2
