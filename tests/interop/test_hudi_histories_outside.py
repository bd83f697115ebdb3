"""Random histories played by Hudi's own engine, in three releases: lakebed reads each state that the engine read while
it wrote, and the changes between any two of them turn the one into the other.

The histories mix operations, key generators, partitionings, indexes, payloads, log formats, compactions (done or only
planned), log compactions, clustering, cleaning, archival and columns added on the way. No list holds a null: releases
lose such lists when they rewrite files of a bulk insert.
"""

import itertools
import json
import random
import warnings
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import DataCleanedError, ReadWarning
from lakebed.verbs.table import Table
from tests.interop.hudi_actors import release_of

pytestmark = pytest.mark.timeout(1800)  # each release starts a JVM and writes dozens of commits

SEEDS = {"0.15.0": (1,), "1.0.2": (14,), "1.1.1": (16,)}
CASES = [(release, seed) for release, seeds in SEEDS.items() for seed in seeds]
VERSIONS = {"1.0.2": ["6", "8", "8"], "1.1.1": ["6", "8", "9", "9"]}
SCHEMA = (
    "id string, k2 int, ts long, part string, p2 int, day_path string, x string, n int, b boolean, f double, "
    "arr array<int>, m map<string,int>, s struct<a:int,b:string>"
)
NOT_COMPARED = {"_row_kind", "_hoodie_file_name", "_hoodie_commit_seqno"}
Rows = dict[tuple[str, str], dict[str, Any]]


class Story:
    """A table's options and the steps of its history, all of them from one seed."""

    def __init__(self, release: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self.release, self.name = release, f"history_{seed}"
        self.merge_on_read = self.chance.random() < 0.75
        self.options = self._table() | self._writes()
        self.schema = SCHEMA
        self.steps = [self._step(number) for number in range(self.chance.randrange(4, 8))]

    def _table(self) -> dict[str, str]:
        chance = self.chance
        keys = chance.choice(["id", "id", "id,k2"])
        partitions = chance.choice(["", "part", "part,p2", "day_path"])
        generator = "Complex" if "," in keys + partitions else "Simple"
        found = {
            "hoodie.datasource.write.table.type": "MERGE_ON_READ" if self.merge_on_read else "COPY_ON_WRITE",
            "hoodie.datasource.write.recordkey.field": keys,
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.partitionpath.field": partitions,
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen."
            + (f"{generator}KeyGenerator" if partitions else "NonpartitionedKeyGenerator"),
            "hoodie.datasource.write.hive_style_partitioning": chance.choice(["true", "false"]),
            "hoodie.datasource.write.partitionpath.urlencode": str(partitions == "day_path").lower(),
            "hoodie.metadata.enable": chance.choice(["true", "false", "false"]),
        }
        if self.release in VERSIONS:
            found["hoodie.write.table.version"] = chance.choice(VERSIONS[self.release])
        payload = chance.choice(["DefaultHoodieRecordPayload", "OverwriteWithLatestAvroPayload", ""])
        if payload:
            found["hoodie.datasource.write.payload.class"] = f"org.apache.hudi.common.model.{payload}"
        return found

    def _writes(self) -> dict[str, str]:
        chance = self.chance
        found = {
            "hoodie.index.type": chance.choice(["SIMPLE", "BLOOM", "BUCKET", "GLOBAL_SIMPLE"]),
            "hoodie.clean.automatic": chance.choice(["true", "false"]),
            "hoodie.clean.commits.retained": "2",
            "hoodie.archive.automatic": chance.choice(["true", "false"]),
            "hoodie.keep.min.commits": "3",
            "hoodie.keep.max.commits": "4",
        }
        if found["hoodie.index.type"] == "BUCKET":
            found |= {"hoodie.bucket.index.num.buckets": "2", "hoodie.bucket.index.hash.field": "id"}
        if self.merge_on_read:
            found["hoodie.logfile.data.block.format"] = chance.choice(["avro", "avro", "parquet"])
        return found

    def _step(self, number: int) -> list[Any]:
        chance = self.chance
        first, later = (
            ["bulk_insert", "upsert", "insert"],
            ["upsert"] * 6 + ["delete", "delete", "insert_overwrite", "insert_overwrite_table"],
        )
        operation = chance.choice(later if number else first)
        if number > 1 and operation == "upsert" and "extra" not in self.schema and chance.random() < 0.3:
            self.schema += ", extra int"
        begin = chance.choice([number * 10, number * 10, number * 10 - 15])
        keys = chance.sample(range(14), chance.randrange(1, 8))
        return [operation, self.schema, [self._row(k, begin + chance.randrange(3)) for k in keys], self._services()]

    def _services(self) -> dict[str, str]:
        found = {}
        if self.merge_on_read:
            service = self.chance.choice(
                ["", "", "", "compact.inline", "compact.schedule.inline", "log.compaction.inline"]
            )
            found = {f"hoodie.{known}": "false" for known in ("compact.inline", "compact.schedule.inline")}
            if service and (service != "log.compaction.inline" or self.release in VERSIONS):
                found[f"hoodie.{service}"] = "true"
            found |= {"hoodie.compact.inline.max.delta.commits": "1", "hoodie.log.compaction.blocks.threshold": "1"}
        if self.options["hoodie.index.type"] != "BUCKET" and self.chance.random() < 0.12:
            found |= {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
        return found

    def _row(self, key: int, ts: int) -> list[Any]:
        chance = self.chance

        def maybe(value: Any) -> Any:
            return None if chance.random() < 0.15 else value

        row = [
            f"k{key:02d}", key % 3, ts, "ab"[key % 2], key % 2, f"2024/01/0{1 + key % 2}",
            maybe(chance.choice(["", "é☃", "x" * 50, "p"])), maybe(chance.randrange(-50, 50)),
            maybe(chance.random() < 0.5), maybe(chance.random()),
            maybe([chance.randrange(9), 7][: chance.randrange(3)]),
            maybe({"q": chance.randrange(5)}), maybe([chance.randrange(5), "z"]),
        ]  # fmt: skip
        return [*row, maybe(chance.randrange(99))] if "extra" in self.schema else row


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], dict[str, Any]]:
    """What each release says of its histories."""
    found = {}
    for release, seeds in SEEDS.items():
        folder = tmp_path_factory.mktemp(release)
        engine = release_of(release)
        for seed in seeds:
            story = Story(release, seed)
            history = {"name": story.name, "options": story.options, "steps": story.steps}
            found[release, seed] = engine.order(do="history", folder=str(folder), history=history)
    return found


def _states(answer: dict[str, Any]) -> dict[str, Rows]:
    """What the engine read after each step that it did and could read, by the newest completed instant then."""
    found = {}
    for instants, rows in answer["states"]:
        if instants and rows is not None:
            found[instants[-1]] = _by_key([json.loads(row) for row in rows])
    return found


def _by_key(rows: list[dict[str, Any]]) -> Rows:
    keyed = {(row["_hoodie_record_key"], row["_hoodie_partition_path"]): row for row in rows}
    assert len(keyed) == len(rows)
    return keyed


def _texts(rows: pa.Table) -> list[dict[str, Any]]:
    kinds = {field.name: field.type for field in rows.schema}
    return [
        {name: _text(value, kinds[name]) for name, value in row.items() if name not in NOT_COMPARED}
        for row in rows.to_pylist()
    ]


def _text(value: Any, kind: pa.DataType) -> str | None:
    if isinstance(value, datetime):
        value = value.replace(tzinfo=None)
    return None if value is None else str(dict(value) if pa.types.is_map(kind) else value)


def _as_shown(rows: Rows, columns: set[str]) -> Rows:
    """Rows with the columns of a schema, newer ones of them null."""
    return {key: {name: row.get(name) for name in columns} for key, row in rows.items()}


def _may_be_cleaned(release: str, seed: int) -> bool:
    return Story(release, seed).options["hoodie.clean.automatic"] == "true"


@pytest.mark.parametrize(("release", "seed"), CASES)
def test_each_state_is_what_the_engine_read_then(
    release: str, seed: int, answers: dict[tuple[str, int], dict[str, Any]], tmp_path: Path
) -> None:
    answer = answers[release, seed]
    table, states = lakebed.open(answer["path"]), _states(answer)
    assert states
    columns = set(table.schema.names) - NOT_COMPARED
    assert _newest(table, columns) == _as_shown(list(states.values())[-1], columns)
    for instant, wanted in states.items():
        try:
            found = _by_key(_texts(table.read(as_of=instant).read_all()))
        except DataCleanedError:
            assert _may_be_cleaned(release, seed)
        else:
            assert _as_shown(found, columns) == _as_shown(wanted, columns)


def _newest(table: Table, columns: set[str]) -> Rows:
    found = _by_key(_texts(table.read().read_all()))
    assert all(set(row) == columns for row in found.values())
    return found


@pytest.mark.parametrize(("release", "seed"), CASES)
def test_changes_turn_each_state_into_each_later_one(
    release: str, seed: int, answers: dict[tuple[str, int], dict[str, Any]]
) -> None:
    answer = answers[release, seed]
    table = lakebed.open(answer["path"])
    columns = set(table.schema.names) - NOT_COMPARED
    states: list[tuple[str | None, Rows]] = [(None, {}), *_states(answer).items()]
    for (after, before), (until, wanted) in itertools.combinations(states, 2):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", ReadWarning)  # it says which deletes can no longer be found
                changes = table.changes(after=after, until=until).read_all()
        except (DataCleanedError, ReadWarning):
            assert _may_be_cleaned(release, seed)
            continue
        found = _as_shown(before, columns)
        for kind, row in zip(changes["_row_kind"].to_pylist(), _texts(changes), strict=True):
            key = row["_hoodie_record_key"], row["_hoodie_partition_path"]
            if kind == "-D":
                found.pop(key, None)
            else:
                found[key] = row
        assert found == _as_shown(wanted, columns)
