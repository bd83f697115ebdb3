"""One Iceberg table's life with several engines: random steps, each by a random engine, and a model of the rows.

python -m tests.interop.iceberg_life SEED-SEED,SEED [--steps 12] [--folder FOLDER] [--wish FIELD=VALUE ...]

lakebed, Spark 4.0 with Iceberg 1.10, Spark 4.1 with Iceberg 1.12 and pyiceberg take turns; DuckDB reads, too. Tables
lie at a path, or in a REST, Hive or SQL catalog. It needs the variables that `./run interop` sets.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lakebed.errors import UnsupportedError
from tests.interop.conftest import Peer
from tests.interop.hive_metastore_server import hive_metastore
from tests.interop.iceberg_actors import Actor, Duck, Lakebed, Place, Pyiceberg, duck_peer
from tests.interop.iceberg_deaths import Deaths
from tests.interop.iceberg_dying import Moment
from tests.interop.iceberg_rest_server import rest_server
from tests.interop.iceberg_spark import Spark, spark_peer
from tests.interop.iceberg_state import FIRST, ICEBERG, Column, Shape, wanted_rows
from tests.interop.lives import arguments, seeds

NOT_READ = {
    "pyiceberg": {
        "equality": "it reads no equality deletes", "default": "it reads null in place of a default",
        "avro": "it reads no Avro files",
    },
    "duckdb": {
        "equality": "it applies equality deletes of one partition to all", "avro": "it reads no Avro files",
        "orc": "it reads no ORC files", "upgraded": "it wants sequence numbers in manifest lists of version 1",
    },
}  # fmt: skip
"""What a reader is not asked to read, by a trait of the table or its file format."""


@dataclass(frozen=True)
class Engines:
    """A process of each outside engine, the catalogs' addresses, and where all tables lie."""

    folder: Path
    addresses: dict[str, str]
    sparks: dict[str, Peer]
    duck: Peer


class Life(Deaths):
    """A table, the engines, and the rows that must be in it."""

    def __init__(self, shape: Shape, name: str, seed: int, engines: Engines, log: Any = None) -> None:
        place = Place(shape, name, engines.folder, engines.addresses, FIRST, shape.version)
        sparks = [Spark(place, release, peer) for release, peer in engines.sparks.items()]
        actors: list[Actor] = [Lakebed(place), *sparks, Pyiceberg(place)]
        super().__init__(shape, place, random.Random(seed), actors, log, spec=shape.spec, version=shape.version)
        self.readers = [*actors, Duck(place, engines.duck, engines.folder)]
        self.traits.add(shape.file_format)
        creator = next(actor for actor in actors if actor.name.startswith(shape.creator))
        creator.create()

    def live(self, steps: int) -> None:
        """So many steps, and a look by every engine after each of them."""
        choices = [
            (3, self._append), (3, self._upsert), (3, self._delete), (1, self._equality), (0.7, self._overwrite),
            (1, self._replace), (1, self._publish), (1, self._add_files), (0.5, self._repair), (2.5, self._rewrite),
            (0.8, self._sweep), (1.2, self._expire), (1, self._tag), (0.5, self._untag), (1, self._branch),
            (0.6, self._merge), (0.8, self._rollback), (4, self._alter), (0.8, self._statistics), (3, self._die),
        ]  # fmt: skip
        weights, acts = zip(*choices, strict=True)
        for _ in range(steps):
            self.step(self.chance.choices(acts, weights)[0] if self.number else self._append)

    def play(self, script: str) -> None:
        """The steps that a script names, each by the engine named before it: `lakebed append, spark4.0 rewrite`. What
        that engine cannot do, another does. `append@before-catalog` is done by lakebed, which is killed there."""
        for line in script.split(","):
            self.who, name = line.split()
            name, _, moment = name.partition("@")
            act = getattr(self, f"_{name}")
            self.step(partial(self.die_in, act, Moment.named(moment)) if moment else act)

    def step(self, act: Any) -> None:
        """One step and the look after it."""
        self.number += 1
        act()
        self.settle()
        try:
            self.check()
        except AssertionError as error:
            error.add_note(f"after step {self.number}")
            raise

    def settle(self) -> None:
        """Take the heads of branches from the metadata, and remember their rows."""
        self.place.now = document, _ = self.place.head()
        refs = {name: ref["snapshot-id"] for name, ref in document.get("refs", {}).items()}
        head = document.get("current-snapshot-id")
        self.main.head = None if head in (None, -1) else head
        assert refs.get("main", self.main.head) == self.main.head
        for name, line in self.branches.items():
            line.head = refs[name]
        for line in (self.main, *self.branches.values()):
            if line.head is not None and line.head not in self.states:
                self.states[line.head] = line.rows, self.columns

    def check(self) -> None:
        """Every reader gets the model's rows, and the metadata says what the model says."""
        self._check_metadata()
        wanted = wanted_rows(self.main.rows, self.columns)
        skipped = f"spark{('4.0', '4.1')[self.number % 2]}"  # they take turns here, too: each look costs a job
        for reader in self.readers:
            if reader.name != skipped:
                self._compare(reader, wanted, self.columns)
        for name, line in self.branches.items():
            for reader in self.chance.sample(self.readers, 2):
                self._compare(reader, wanted_rows(line.rows, self.columns), self.columns, branch=name)
        past = sorted({*self.states} - {self.main.head}, key=str)
        if past:
            snapshot = self.chance.choice(past)
            rows, columns = self.states[snapshot]
            for reader in (self.readers[0], self.chance.choice(self.readers)):
                self._compare(reader, wanted_rows(rows, columns), columns, snapshot=snapshot)

    def _compare(self, reader: Actor, wanted: list[Any], columns: Sequence[Column], **at: Any) -> None:
        if any(trait in self.traits for trait in NOT_READ.get(reader.name, {})):
            return
        try:
            found = reader.read(columns, **at)
        except UnsupportedError as error:
            self.refused[f"{reader.name} read: {error}"] += 1
            return
        except Exception as error:
            error.add_note(f"{reader.name} reads {at} after step {self.number}")
            raise
        if found != wanted:
            more = [row for row in found if row not in wanted][:4]
            less = [row for row in wanted if row not in found][:4]
            raise AssertionError(
                f"{reader.name} reads {len(found)} rows of {len(wanted)} {at or ''}: too many {more}, missing {less}"
            )

    def _check_metadata(self) -> None:
        document, _ = self.place.now
        assert document["format-version"] == self.version
        schema = next(one for one in document["schemas"] if one["schema-id"] == document["current-schema-id"])
        names = [(field["name"], field["type"]) for field in schema["fields"]]
        assert names == [(c.name, ICEBERG.get(c.type, c.type)) for c in self.columns], names
        spec = next(one for one in document["partition-specs"] if one["spec-id"] == document["default-spec-id"])
        ids = {field["id"]: field["name"] for field in schema["fields"]}
        fields = [_transform(f, ids) for f in spec["fields"] if f["transform"] != "void"]
        assert sorted(fields) == sorted(self.spec), fields
        order = next(o for o in document["sort-orders"] if o["order-id"] == document["default-sort-order-id"])
        assert [ids[field["source-id"]] for field in order["fields"]] == [*self.sort]
        refs = {name: ref["snapshot-id"] for name, ref in document.get("refs", {}).items()}
        heads = {name: line.head for name, line in self.branches.items()} | self.tags
        assert {name: id for name, id in refs.items() if name != "main"} == heads
        snapshots = {snapshot["snapshot-id"] for snapshot in document.get("snapshots", ())}
        assert snapshots >= {*self.states}, "a snapshot is gone"


def _transform(field: dict[str, Any], names: dict[int, str]) -> str:
    source, transform = names[field["source-id"]], field["transform"]
    if transform == "identity":
        return source
    match = re.fullmatch(r"(bucket|truncate)\[(\d+)\]", transform)
    return f"{match[1]}({match[2]}, {source})" if match else f"{transform}({source})"


@contextmanager
def engines(folder: Path, catalogs: Sequence[str] = ("rest", "hive")) -> Iterator[Engines]:
    """The catalogs' servers, and a process of each outside engine."""
    with ExitStack() as stack:
        addresses = {"sql": f"sqlite:///{folder}/pyiceberg.db"}
        for catalog, server in (("rest", rest_server), ("hive", hive_metastore)):
            if catalog in catalogs:
                (folder / catalog).mkdir()
                addresses[catalog] = stack.enter_context(server(folder / catalog))
        peers = []
        for name in ("4.0", "4.1", "duck"):
            (folder / name).mkdir()
            peers.append(
                duck_peer(folder / name) if name == "duck" else spark_peer(name, folder / name, folder, addresses)
            )
            stack.callback(peers[-1].close)
        yield Engines(folder, addresses, {"4.0": peers[0], "4.1": peers[1]}, peers[2])


def main() -> None:
    """Lives by seed."""
    given = arguments(__doc__, 12)
    wanted = {name: int(value) if value.isdigit() else value for name, value in (w.split("=") for w in given.wish)}
    failed, refused = [], Counter[str]()
    with tempfile.TemporaryDirectory() as temporary, engines(given.folder or Path(temporary)) as found:
        for seed in seeds(given.seeds):
            shape = Shape.drawn(random.Random(seed), wanted)
            began = time.monotonic()
            print(f"== {seed} {shape}", flush=True)
            try:
                life = Life(shape, f"life{seed}", seed, found, None if given.quiet else sys.stdout)
                life.play(given.play) if given.play else life.live(given.steps)
                refused += life.refused
            except Exception as error:
                failed.append(seed)
                print(f"-- {seed} failed: " + "".join(traceback.format_exception(error)[-5:]), flush=True)
            print(f"   {time.monotonic() - began:.1f} s", flush=True)
    for what, count in refused.most_common():
        print(f"refused {count} x {what[:220]}")
    print(f"failed: {failed}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
