"""Changes and streams of tables that lakebed and Paimon's Java engine write in turns: both see the same ones, and each
takes up the progress of a consumer that the other has kept. So does pypaimon."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed import Table
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, drain
from tests.interop.conftest import PaimonJvm, Pypaimon
from tests.tables.paimon.small import SCHEMA, rows

KEYED = ("dt", "id")
CASES = {
    "fixed": (KEYED, {"bucket": "2"}),
    "changelog": (KEYED, {"bucket": "2", "changelog-producer": "input"}),
    "lookup": (KEYED, {"bucket": "2", "changelog-producer": "lookup"}),
    "vectors": (KEYED, {"bucket": "2", "deletion-vectors.enabled": "true"}),
    "cross_partition": (("id",), {"bucket": "-1"}),
    "append": ((), {"bucket": "-1"}),
}
Change = tuple[Any, ...]


@pytest.fixture(params=CASES)
def table(request: pytest.FixtureRequest, tmp_path: Path, paimon_jvm: PaimonJvm) -> Table:
    """Written in turns, with an overwrite; the engine compacts where buckets can be named."""
    keys, options = CASES[request.param]
    table = lakebed.create(tmp_path / "db.db" / "t", "paimon", SCHEMA, keys, ["dt"], options)
    location = Path(table.location)
    table.write(rows(*(("ab"[number % 2], number, "v", number) for number in range(8))))
    again = [("+U" if keys else "+I", "ab"[number % 2], number, "w", number) for number in range(2, 12, 2)]
    paimon_jvm.write(location, again, 1, compact=request.param in ("fixed", "lookup", "vectors"))
    if keys:
        table.write(rows(("a", 2, "x", 1), ("b", 1, "x", 1), kinds=["-D", "+U"]), mode="upsert")
        paimon_jvm.write(location, [("-D", "b", 3, "y", 3), ("+I", "b", 33, "y", 3)], 2)
    table.write(rows(("b", 50, "z", 1)), mode="overwrite")
    table.write(rows(("a", 60, "z", 1)))
    return table


def ours(changes: list[dict[str, Any]]) -> list[Change]:
    return [(row["_row_kind"], row["dt"], row["id"], row["v"], row["n"]) for row in changes]


def theirs(changes: list[dict[str, Any]]) -> list[Change]:
    return [(line["kind"], *(line["row"][name] for name in SCHEMA.names)) for line in changes]


def test_every_range(table: Table, paimon_jvm: PaimonJvm) -> None:
    ids = [int(instant.time) for instant in table.history()]
    assert len(ids) >= 4
    for mode in ("auto", "diff", "delta", "changelog"):
        read = lakebed.open(table.location, {"incremental-between-scan-mode": mode})
        for after, until in [*pairwise(ids), (ids[0], ids[-1])]:
            found = ours(read.changes(after=after, until=until).read_all().to_pylist())
            wanted = theirs(paimon_jvm.changes(Path(table.location), after, until, mode))
            assert sorted(found) == sorted(wanted), f"{mode} ({after}, {until}]"


def test_a_stream_changes_hands(table: Table, paimon_jvm: PaimonJvm) -> None:
    location, start = Path(table.location), {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
    alone = [sorted(batch) for batch in batches(table, start)]
    shared: list[list[Change]] = []
    while len(shared) < len(alone):
        shared.append(sorted(theirs(paimon_jvm.follow(location, "c", 1))))
        shared += [sorted(batch) for batch in batches(table, {**start, "consumer-id": "c"}, 1)]
    assert [batch for batch in shared if batch] == [batch for batch in alone if batch]
    newest = len(table.history())
    assert lakebed.paimon.consumers(table)["c"] in (newest, newest + 1)
    assert not paimon_jvm.follow(location, "c", 1)


@pytest.mark.parametrize("keys", [KEYED, ()], ids=["keyed", "append"])
def test_pypaimon_takes_up_a_consumer_and_gives_it_back(
    tmp_path: Path, pypaimon: Pypaimon, keys: tuple[str, ...]
) -> None:
    options = {"bucket": "2"} if keys else {"bucket": "-1"}
    table = lakebed.create(tmp_path / "db.db" / "t", "paimon", SCHEMA, keys, ["dt"], options)
    kinds = ("+U", "-D", "+I") if keys else ("+I", "+I", "+I")
    for turn in range(4):
        changed = [("a", turn - 1, "w", 1), ("b", turn - 2, "x", 1), ("a", turn, "v", turn)]
        table.write(rows(*changed, kinds=kinds), mode="upsert" if keys else "append")
    start = {"scan.snapshot-id": "1"}
    alone = [sorted(batch) for batch in batches(table, start)]
    shared = [sorted(batch) for batch in batches(table, {**start, "consumer-id": "c"}, 1)]
    shared.append(sorted(ours(pypaimon.stream(Path(table.location), "c").to_pylist())))
    assert lakebed.paimon.consumers(table) == {"c": 3}
    shared += [sorted(batch) for batch in batches(table, {**start, "consumer-id": "c"})]
    assert shared == alone
    assert len(alone) == 4


def batches(table: Table, options: Mapping[str, str], number: int = 99) -> list[list[Change]]:
    """The changes of so many batches of one snapshot each, all of which have been processed."""
    found = []
    for _, plan in drain(lakebed.open(table.location, options).stream(), None, Limits(commits=1)):
        if len(found) == number:
            break
        found.append(ours(run(plan, 1).read_all().to_pylist()))
    return found
