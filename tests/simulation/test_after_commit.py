"""After the storage call that publishes a write, nothing that fails makes the write fail: its caller would write the
same rows once more."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from lakebed.formats.paimon.catalog.server import Server
from lakebed.kernel.files import Store, opening
from lakebed.model.commit import Outcome
from lakebed.testing.faults import CHANGES, READS, Fault, FaultyStore, Kind
from lakebed.testing.simulation.catalog import POINTER
from lakebed.testing.simulation.iceberg_catalog import IcebergCatalogSubject
from lakebed.testing.simulation.memory import MemoryStore
from lakebed.testing.simulation.paimon_catalog import answered
from lakebed.testing.simulation.run import SUBJECTS
from lakebed.testing.simulation.subject import Subject, rows_of

ANY = READS | CHANGES | {"modified"}
OPTIONS = {"hudi": {"hoodie.clean.commits.retained": 1}}
UNKEYED = ("paimon-tracked",)


@contextmanager
def served(store: Store) -> Iterator[None]:
    """A block in which catalogs open this store, and a server of Paimon's answers."""
    with patch.object(opening, "RemoteStore", lambda *_: store), patch.object(Server, "_answer", answered):
        yield


def written(format: str, seed: int, *faults: Fault) -> tuple[Subject, FaultyStore, str]:
    """A table's third write, with faults: how it ended."""
    subject = SUBJECTS[format](random.Random(seed))
    subject.keyed, real = format not in UNKEYED, MemoryStore("s3://simulated/after/db.db/t", lambda: 1_800_000_000.0)
    if isinstance(subject, IcebergCatalogSubject):  # the other one's client writes nothing when it commits
        subject.kind = "SimulatedMetastore"
    mode, options = "upsert" if subject.keyed else "append", OPTIONS.get(format.partition("-")[0], {})
    with served(real):  # a catalog opens the files itself
        subject.create(real)
        for turn in range(2):
            subject.open(real).write(subject.data([(1, turn)]), mode, options)
    store = FaultyStore(real, *faults)
    with served(store):
        result = subject.open(store).write(subject.data([(1, 2), (2, 3)]), mode, options)
    assert result.outcome is Outcome.COMMITTED
    with served(real):
        subject.complete(subject.open(real))
        before = [row for row in subject.begins_with if row[0] not in (1, 2)] if subject.keyed else [(1, 0), (1, 1)]
        assert sorted(rows_of(subject.open(real).read(["id", "v"]))) == sorted([*before, (1, 2), (2, 3)])
    return subject, store, " ".join(result.notes)


@pytest.mark.parametrize("format", [*SUBJECTS])
def test_no_failure_after_the_commit_is_one_of_the_write(format: str) -> None:
    for seed in range(2):
        subject, store, _ = written(format, seed)
        commits = [call.verb == "put_if_absent" and subject.publishes("put", call.path) for call in store.calls]
        swaps = [(call.verb, call.path) == ("write", POINTER) for call in store.calls]
        published = (swaps if any(swaps) else commits).index(True) + 1
        assert len(store.calls) > published
        for at in range(published + 1, len(store.calls) + 1):
            written(format, seed, Fault(at, Kind.ERROR_BEFORE, ANY))
