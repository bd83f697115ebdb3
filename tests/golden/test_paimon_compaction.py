"""Compactions equal those of Paimon's Java engine: the picks of its universal compaction, and each COMPACT snapshot of
the golden tables with a primary key, made again from the snapshot before it."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.formats.paimon.codec.file_schema import KIND_FIELD, SEQUENCE_FIELD
from lakebed.formats.paimon.codec.manifest import ManifestEntry
from lakebed.formats.paimon.codec.snapshot_json import CommitKind, Snapshot
from lakebed.formats.paimon.layout import bucket_folder
from lakebed.formats.paimon.manifests import changelog_lists, entries_of, index_files, live_files, metas_of_lists
from lakebed.formats.paimon.read.deletion_vectors import DeletionVectors
from lakebed.formats.paimon.read.files import read_batches
from lakebed.formats.paimon.read.plan import deletion_files
from lakebed.formats.paimon.rewrite.universal import Pick, UniversalPicker
from lakebed.formats.paimon.snapshot import History
from tests.golden import HERE, expected, names, unpack
from tests.golden.compare import diff, load


@dataclass(frozen=True)
class Run:
    level: int
    size: int


def test_universal_picks_are_those_of_the_jvm() -> None:
    """All 398 vectors: levels and sizes of runs, and what the reference picks of them."""
    lines = (HERE / "paimon" / "universal_vectors.jsonl").read_text().splitlines()
    for vector in map(json.loads, lines):
        runs = [Run(*run) for run in vector["runs_level_size"]]
        picker = UniversalPicker(vector["trigger"], vector["maxSizeAmp"], vector["sizeRatio"])
        for key, rules in (("pick", picker), ("forceUpLevel0", replace(picker, level_0_waits=0))):
            assert spelled(rules.pick(vector["numLevels"], runs)) == vector[key], vector
    assert len(lines) == 398


def spelled(pick: Pick | None) -> dict[str, int] | None:
    return None if pick is None else {"outputLevel": pick.output_level, "runs": pick.runs}


FULL = {
    "cl_full_compaction": (2, 4, 6), "evolve": (6,), "fmt_per_level": (2, 4), "me_aggregation": (4,),
    "me_partial_update": (4,), "pk_fixed": (4,), "pk_fixed_bk": (4,), "types_pk_avro": (2,), "types_pk_orc": (2,),
    "types_pk_parquet": (2,),
}  # fmt: skip
"""COMPACT snapshots of tables with a primary key whose predecessor is there: those of full compactions."""
PICKED = {
    "cl_lookup": (2, 4, 6), "expire": (11,), "me_first_row": (2, 4, 6), "pk_dv": (2, 4, 6), "pk_dv64": (2, 4, 6),
    "pk_universal": (6, 11, 16),
}  # fmt: skip
"""Those of compactions that a writer picked."""
EVERY = [(name, number, of is FULL) for of in (FULL, PICKED) for name, numbers in of.items() for number in numbers]


@pytest.mark.slow
def test_no_compaction_is_left_out() -> None:
    for name in names("paimon"):
        answer = json.loads((expected(unpack("paimon", name)) / "meta.json").read_text())
        if not answer.get("primaryKeys") or name == "pk_postpone":
            continue
        snapshots = History(lakebed.open(unpack("paimon", name)).store).snapshots()
        ids = {snapshot.id for snapshot in snapshots}
        compacts = [s.id for s in snapshots if s.commit_kind is CommitKind.COMPACT and s.id - 1 in ids]
        assert tuple(compacts) == FULL.get(name, PICKED.get(name, ()))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number", "full"), EVERY)
def test_a_compaction_is_that_of_the_jvm(tmp_path: Path, name: str, number: int, full: bool) -> None:
    theirs = lakebed.open(unpack("paimon", name))
    folder = unpack("paimon", name, into=tmp_path)
    for path in (folder / "snapshot").glob("snapshot-*"):
        if int(path.name.removeprefix("snapshot-")) >= number:
            path.unlink()
    (folder / "snapshot" / "LATEST").write_text(str(number - 1))
    table = lakebed.open(folder, {"write-only": "false"})
    result = table.rewrite(options={"compact_strategy": "full" if full else "minor"})
    assert result.instants == (str(number),)
    assert diff("paimon", table.read(), load(expected(unpack("paimon", name)) / f"snapshot_{number}.jsonl")) is None
    want, got = State.of(theirs, number), State.of(table, number)
    assert got.files == want.files
    assert got.changes == want.changes
    assert got.deleted == want.deleted
    assert got.counts == want.counts


@dataclass
class State:
    """What a snapshot has: files without their names and sizes, rows of the changelog in order, deleted positions."""

    files: list[Any]
    changes: list[Any]
    deleted: list[Any]
    counts: tuple[int, int, int]

    @classmethod
    def of(cls, table: lakebed.Table, number: int) -> "State":
        history = History(table.store)
        snapshot = history.snapshot(number)
        live = live_files(table.store, snapshot)
        return cls(
            sorted(map(shape, live), key=repr),
            [row for entry in changelog(table, snapshot) for row in rows(table, history, entry)],
            sorted(deleted(table, snapshot, live), key=repr),
            (snapshot.total_record_count, snapshot.delta_record_count, snapshot.changelog_record_count),
        )


def shape(entry: ManifestEntry) -> tuple[Any, ...]:
    file = entry.file
    return (
        entry.partition, entry.bucket, entry.total_buckets, file.level, file.row_count, file.min_key, file.max_key,
        file.key_stats, file.value_stats, file.value_stats_cols, file.min_sequence_number, file.max_sequence_number,
        file.delete_row_count, file.file_source, file.file_name.rpartition(".")[2], file.schema_id,
    )  # fmt: skip


def changelog(table: lakebed.Table, snapshot: Snapshot) -> list[ManifestEntry]:
    metas = [meta for metas in metas_of_lists(table.store, changelog_lists(snapshot)) for meta in metas]
    return sorted(entries_of(table.store, metas), key=lambda entry: (entry.partition, entry.bucket))


def rows(table: lakebed.Table, history: History, entry: ManifestEntry) -> list[Any]:
    schema = history.schema(entry.file.schema_id)
    path = f"{bucket_folder('', entry.bucket)}/{entry.file.file_name}"
    found = read_batches(table.store, path, schema, schema.fields, (SEQUENCE_FIELD, KIND_FIELD))
    facts = (entry.bucket, entry.file.level, entry.file.file_source, entry.file.delete_row_count)
    return [(facts, row) for batch in found for row in batch.to_pylist()]


def deleted(table: lakebed.Table, snapshot: Snapshot, live: list[ManifestEntry]) -> list[Any]:
    vectors = deletion_files(index_files(table.store, snapshot))
    found: list[Any] = []
    for entry in live:
        of_bucket = vectors.get((entry.partition, entry.bucket), {})
        positions = DeletionVectors(table.store, [entry.file], of_bucket).of(entry.file)
        if positions is not None:
            found.append((entry.bucket, entry.file.level, entry.file.row_count, positions.tolist()))
    return found
