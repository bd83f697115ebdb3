"""A commit's cost does not grow with the table's history: what it reads and decodes, counted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.paimon.codec.manifest import ManifestFileMeta
from lakebed.formats.paimon.manifests import data_manifests, live_files
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.table import PaimonTable
from lakebed.formats.paimon.write.sink import PaimonSink
from lakebed.formats.paimon.write.state import greatest_sequences, read_state
from lakebed.kernel.avro import records
from lakebed.kernel.files import Store, open_store
from lakebed.kernel.files.local import LocalStore

ROWS = pa.table({"id": range(20), "part": [f"p{n % 2}" for n in range(20)]})
MERGED_EVERY = 30
"""The default of `manifest.merge-min-count`."""
KEPT = {"snapshot.num-retained.min": "10000", "snapshot.num-retained.max": "10000", "write-only": "true"}


class Counts:
    """Files read and Avro records decoded since `begin`."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.reads = self.records = 0


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    counts = Counts()
    read, datum = LocalStore.read, records.datum

    def counted_read(store: LocalStore, path: str, start: int = 0, length: int | None = None) -> bytes:
        counts.reads += 1
        return read(store, path, start, length)

    def counted_datum(*given: Any) -> dict[str, Any]:
        counts.records += 1
        return datum(*given)

    monkeypatch.setattr(LocalStore, "read", counted_read)
    monkeypatch.setattr(records, "datum", counted_datum)
    return counts


@pytest.fixture(params=["append", "upsert"])
def grown(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[int], tuple[PaimonTable, str]]:
    """Makes a table with so many commits, and says how it is written."""
    mode: str = request.param
    keyed = mode == "upsert"

    def grow(commits: int) -> tuple[PaimonTable, str]:
        schema = pa.schema([pa.field("id", pa.int64(), not keyed), pa.field("part", pa.string(), not keyed)])
        key = {"primary_key": ["part", "id"], "options": {**KEPT, "bucket": "2"}} if keyed else {"options": KEPT}
        table = lakebed.create(tmp_path / f"{commits}", schema=schema, format="paimon", partition_by=["part"], **key)
        assert isinstance(table, PaimonTable)
        add_commits(table, commits)
        return table, mode

    return grow


def add_commits(table: PaimonTable, commits: int) -> None:
    """Commit the same rows again and again, under other file names."""
    writer = table.writer("grower")
    writer.write(ROWS)
    messages: Any = writer.prepare_commit()
    for number in range(commits):
        named = [
            dataclasses.replace(
                message,
                new_files=tuple(
                    dataclasses.replace(file, file_name=f"{number}-{file.file_name}") for file in message.new_files
                ),
            )
            for message in messages
        ]
        writer.commit(number, named if number else messages)


def test_writes_read_as_much_after_many_commits_as_after_few(
    grown: Callable[[int], tuple[PaimonTable, str]], counts: Counts
) -> None:
    def most(commits: int) -> tuple[int, int]:
        table, mode = grown(commits)
        table.write(ROWS, mode=mode)  # the process knows the table from here on
        seen: list[tuple[int, int]] = []
        for _ in range(MERGED_EVERY + 1):
            counts.begin()
            table.write(ROWS, mode=mode)
            seen.append((counts.reads, counts.records))
        return max(reads for reads, _ in seen), max(decoded for _, decoded in seen)

    few, many = most(MERGED_EVERY + 2), most(4 * MERGED_EVERY + 2)
    assert many[0] <= few[0]
    assert many[1] <= few[1]


def test_a_user_who_committed_last_reads_no_history(
    grown: Callable[[int], tuple[PaimonTable, str]], counts: Counts
) -> None:
    table, _ = grown(40)
    writer = table.writer("grower")
    writer.write(ROWS)
    messages = writer.prepare_commit()
    counts.begin()
    writer.commit(1000, messages)
    assert counts.reads <= 12


def test_joined_manifests_say_what_their_parts_said(grown: Callable[[int], tuple[PaimonTable, str]]) -> None:
    table, _ = grown(MERGED_EVERY + 3)
    history = History(table.store)
    latest = history.latest()
    assert latest is not None
    metas = data_manifests(table.store, latest)
    files = live_files(table.store, latest)
    joined: ManifestFileMeta = max(metas, key=lambda meta: meta.num_added_files)
    assert joined.num_added_files >= MERGED_EVERY
    assert sum(meta.num_added_files for meta in metas) == len(files)
    assert len({entry.identity for entry in files}) == len(files)
    later = min(metas, key=lambda meta: meta.num_added_files)
    assert joined.partition_stats == later.partition_stats  # every commit wrote both partitions
    assert (joined.min_bucket, joined.max_bucket, joined.min_level) == (later.min_bucket, later.max_bucket, 0)


def test_the_state_of_a_write_is_that_of_the_live_files(grown: Callable[[int], tuple[PaimonTable, str]]) -> None:
    table, mode = grown(MERGED_EVERY + 3)
    if mode == "append":
        table.write(ROWS, mode="overwrite")  # deletes what was there
    store: Store = open_store(table.location)
    sink = table.sink()
    assert isinstance(sink, PaimonSink)
    latest = History(store).latest()
    state = read_state(store, latest, sink.schema, sink.options)
    assert state.sequences.keys() == greatest_sequences(live_files(store, latest)).keys()
    if mode == "upsert":
        assert state.sequences == greatest_sequences(live_files(store, latest))
