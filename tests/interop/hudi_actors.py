"""The engines that take turns on one Hudi table: a release of Hudi's own, and lakebed, each told the same orders."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

import lakebed
from lakebed.errors import OptionError, UnsupportedError
from lakebed.kernel.files import Store
from lakebed.model.instant import Instant
from tests.interop.conftest import HERE, Peer, named
from tests.interop.hudi_shape import JVM_ONLY, SHARED, Shape, as_text
from tests.interop.kept import kept

Texts = list[list[str | None]]
RECORD_KEYS, PARTITIONS = "hoodie.datasource.write.recordkey.field", "hoodie.datasource.write.partitionpath.field"
COMPACT = {"hoodie.compact.inline.max.delta.commits": "1"}
UPKEEP = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.commits.archival.batch": "2",
    "hoodie.compact.inline.max.delta.commits": "1",
}
"""Settings of a writer that cleans and archives after itself, as soon as it can."""
ARCHIVAL = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
CLUSTERING = {
    "hoodie.clustering.plan.strategy.small.file.limit": "104857600",
    "hoodie.clustering.plan.strategy.sort.columns": "id,ts",
}


Change = tuple[str, Any, Any]
"""What a commit did to a row: i, u or d, and the images before and after."""


def image(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Some of a row's values, those that every engine spells alike."""
    return tuple(row.get(name) for name in ("id", "ts", "x", "n", "flag"))


class EngineError(Exception):
    """The release of Hudi failed at an order."""


class Actor(Protocol):
    """One engine, with one table."""

    name: str

    def write(self, operation: str, rows: pa.Table, more: Mapping[str, str] = {}, first: bool = False) -> None: ...
    def delete_partition(self, partition: str, rows: pa.Table) -> None: ...
    def schedule_compaction(self) -> None: ...
    def run_compaction(self) -> None: ...
    def cluster(self) -> None: ...
    def compact_logs(self) -> None: ...
    def clean(self) -> None: ...
    def archive(self) -> None: ...
    def savepoint(self, instant: str) -> None: ...
    def delete_savepoint(self, instant: str) -> None: ...
    def restore(self, instant: str) -> None: ...
    def rollback(self, instant: Instant, before: Instant) -> None: ...
    def read(self, columns: Sequence[str], where: str = "", more: Mapping[str, str] = {}) -> Texts: ...


class Release:
    """A process of one release of Hudi, which stays for all tables of a test."""

    def __init__(self, release: str, folder: Path) -> None:
        (jar,) = Path(named("LAKEBED_HUDI_JARS")).glob(f"hudi-spark*-{release}.jar")
        self.release, self.folder = release, folder
        command = [named("LAKEBED_HUDI_JVM_PYTHON"), str(HERE / "hudi_lives_peer.py"), str(jar), str(folder)]
        self._peer = Peer(command, folder)

    def order(self, **order: Any) -> Any:
        """What the engine answers; EngineError when it failed."""
        answer = json.loads(self._peer.ask(json.dumps(order), end="ANSWER ")[-1])
        if "error" in answer:
            raise EngineError(f"{order.get('sql') or order['do']}: {answer['error']}")
        return answer["rows"]

    @property
    def runs(self) -> bool:
        """Whether the process has not ended."""
        return self._peer.runs

    @property
    def process_group(self) -> int:
        """The group of its processes, Python and Java."""
        return self._peer.process_group

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Nothing of it runs in the block."""
        os.killpg(self.process_group, signal.SIGSTOP)
        try:
            for _ in range(200):  # a thread that has begun a process waits for it, which is stopped too
                if not {*_states(self.process_group)} & {"R", "S", "D"}:
                    break
                time.sleep(0.001)
            yield
        finally:
            os.killpg(self.process_group, signal.SIGCONT)

    def close(self) -> None:
        """End the process."""
        self._peer.close()


def release_of(name: str) -> Release:
    """The process of a release that all tests share. Its folder outlives the test that began it."""
    return kept(f"hudi {name}", lambda folder: Release(name, folder))


def _states(group: int) -> Iterator[str]:
    """The states of all threads of a process group, in Linux's letters."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int((process / "stat").read_text().rpartition(")")[2].split()[2]) == group:
                for task in process.glob("task/*/stat"):
                    yield task.read_text().rpartition(")")[2].split()[0]


class Bundle:
    """Hudi's own engine as an actor."""

    def __init__(self, release: Release, shape: Shape, path: Path) -> None:
        self.name = release.release
        self._release, self._shape, self._path = release, shape, str(path)
        self._options = {**shape.options, **JVM_ONLY}
        if shape.non_blocking:  # its check of such a writer looks for the type of a table that may not be there yet
            self._options["hoodie.table.type"] = "MERGE_ON_READ"
        if shape.change_log:  # its reader refuses its own inserts that do not look for duplicates
            self._options["hoodie.merge.allow.duplicate.on.inserts"] = "false"

    def write(self, operation: str, rows: pa.Table, more: Mapping[str, str] = {}, first: bool = False) -> None:
        """One commit of rows."""
        file = self._release.folder / "rows.parquet"
        pq.write_table(rows, file)
        options = {**self._options, **more, "hoodie.datasource.write.operation": operation}
        self._release.order(
            do="write", path=self._path, rows=str(file), options=options, mode="overwrite" if first else "append"
        )

    def delete_partition(self, partition: str, rows: pa.Table) -> None:
        """A commit that takes a partition away."""
        self.write("delete_partition", rows, {"hoodie.datasource.write.partitions.to.delete": partition})

    def schedule_compaction(self) -> None:
        """Plan a compaction of all file groups that have logs."""
        self._compaction("schedule")

    def run_compaction(self) -> None:
        """Run what is planned."""
        self._compaction("run")

    def _compaction(self, what: str) -> None:
        options = ",".join(f"{key}={value}" for key, value in (COMPACT | self._settings).items())
        self._call(f"call run_compaction(op => '{what}', path => '$P', options => '{options}')")

    def compact_logs(self) -> None:
        """No procedure does that."""
        raise UnsupportedError(f"{self.name} compacts no logs on its own")

    def cluster(self) -> None:
        """Plan a clustering of all file groups and run it."""
        settings = CLUSTERING | self._settings | {"hoodie.layout.optimize.strategy": self._shape.layout}
        sorting = settings.pop("hoodie.clustering.plan.strategy.sort.columns")
        options = ",".join(f"{key}={value}" for key, value in settings.items())
        self._call(f"call run_clustering(table => '$T', order => '{sorting}', options => '{options}')")

    def clean(self) -> None:
        """Remove file slices that the newest commit does not need."""
        self._call("call run_clean(table => '$T', retain_commits => 1)")

    def archive(self) -> None:
        """Take old instants off the timeline."""
        least, most = ARCHIVAL.values()
        metadata = self._options["hoodie.metadata.enable"]
        self._call(
            f"call archive_commits(table => '$T', min_commits => {least}, max_commits => {most}, retain_commits => 1,"
            f" enable_metadata => {metadata})"
        )

    def savepoint(self, instant: str) -> None:
        """Keep a commit's files."""
        self._call(f"call create_savepoint(table => '$T', commit_time => '{instant}')")

    def delete_savepoint(self, instant: str) -> None:
        """Keep them no longer."""
        self._call(f"call delete_savepoint(table => '$T', instant_time => '{instant}')")

    def restore(self, instant: str) -> None:
        """Back to a savepoint."""
        self._call(f"call rollback_to_savepoint(table => '$T', instant_time => '{instant}')")

    def rollback(self, instant: Instant, before: Instant) -> None:
        """Take the newest commit back."""
        self._call(f"call rollback_to_instant(table => '$T', instant_time => '{instant.time}')")

    @property
    def _settings(self) -> dict[str, str]:
        return {key: value for key, value in self._options.items() if key.startswith("hoodie.metadata.")}

    def _call(self, sql: str) -> None:
        settings = {key: value for key, value in self._options.items() if key != "hoodie.table.name"}
        self._release.order(do="call", path=self._path, sql=sql, settings=settings)

    def read(self, columns: Sequence[str], where: str = "", more: Mapping[str, str] = {}) -> Texts:
        """The rows of the snapshot, or what `more` asks for."""
        options = {"hoodie.metadata.enable": self._options["hoodie.metadata.enable"], **more}
        return self._release.order(do="read", path=self._path, columns=list(columns), where=where, options=options)  # type: ignore[no-any-return]

    def changes(self, begin: str, end: str) -> list[Change]:
        """The changes of the commits in (begin, end]."""
        found = self.read(
            ["op", "before", "after"],
            more={
                "hoodie.datasource.query.type": "incremental",
                "hoodie.datasource.query.incremental.format": "cdc",
                "hoodie.datasource.read.begin.instanttime": begin,
                "hoodie.datasource.read.end.instanttime": end,
            },
        )
        rows = [(op, json.loads(before or "null"), json.loads(after or "null")) for op, before, after in found]
        return [(op or "", before and image(before), after and image(after)) for op, before, after in rows]

    def listed(self) -> list[tuple[str, str, int]]:
        """The files that the metadata table lists: partition, name, size."""
        return [(part, name, int(size)) for part, name, size in self._release.order(do="listed", path=self._path)]

    def indexed(self, parts: Sequence[str], files: Sequence[Any], keys: Sequence[str], column: str) -> list[list[Any]]:
        """What the metadata table knows of files, and where it says that each key is."""
        return self._release.order(  # type: ignore[no-any-return]
            do="indexed", path=self._path, parts=list(parts), files=list(files), keys=list(keys), column=column
        )

    def archived(self) -> list[list[str]]:
        """[instant, action] of the archived timeline."""
        return self._release.order(do="archived", path=self._path)  # type: ignore[no-any-return]


class Lakebed:
    """lakebed as an actor."""

    name = "lakebed"

    def __init__(self, shape: Shape, path: Path, store: Store | None = None) -> None:
        self._shape, self._path, self._place = shape, path, path if store is None else store
        self.unknown: set[str] = set()
        self.changed: Counter[str] = Counter()

    @property
    def table(self) -> lakebed.Table:
        """The table as it is now."""
        return lakebed.open(self._place, SHARED if self._shape.locks else {})

    def write(self, operation: str, rows: pa.Table, more: Mapping[str, str] = {}, first: bool = False) -> None:
        """One commit of rows; the first one makes the table."""
        shape = self._shape
        if first:
            known = {*self._writer_options, RECORD_KEYS, PARTITIONS}
            options = {key: value for key, value in shape.options.items() if key not in known or "timebased" in key}
            options.setdefault("hoodie.write.table.version", str(shape.version))
            partition_by = shape.options[PARTITIONS].split(",")
            lakebed.create(
                self._path, "hudi", shape.schema, primary_key=shape.keys,
                partition_by=tuple(name for name in partition_by if name), options=options,
            )  # fmt: skip
        modes = {
            "insert": "append", "bulk_insert": "append", "upsert": "upsert", "delete": "delete",
            "delete_partition": "delete",
        }  # fmt: skip
        options = {**self._writer_options, **more, "hoodie.datasource.write.operation": operation}
        while True:
            try:
                self.table.write(rows, mode=modes.get(operation, "overwrite"), options=options)
            except OptionError as error:
                unknown = str(error).split("'")[1]
                if "unknown option" not in str(error) or unknown not in options:
                    raise
                self.unknown.add(unknown)
                options = {key: value for key, value in options.items() if key not in self.unknown}
            else:
                self.changed["write"] += 1
                return

    def delete_partition(self, partition: str, rows: pa.Table) -> None:
        """A commit that takes a partition away."""
        more = {"hoodie.datasource.write.partitions.to.delete": partition}
        self.write("delete_partition", rows.slice(0, 0), more)

    def schedule_compaction(self) -> None:
        """Plan a compaction of all file groups that have logs."""
        self.table.rewrite(
            options={**COMPACT, "lakebed.rewrite.what": "compaction", "lakebed.rewrite.step": "schedule"}
        )

    def run_compaction(self) -> None:
        """Run what is planned."""
        self._rewrite("run", {**COMPACT, "lakebed.rewrite.what": "compaction", "lakebed.rewrite.step": "run"})

    def compact_logs(self) -> None:
        """Merge the blocks of logs."""
        more = {"lakebed.rewrite.what": "log-compaction", "hoodie.log.compaction.blocks.threshold": "2"}
        self._rewrite("compact logs", more)

    def cluster(self) -> None:
        """Plan a clustering of all file groups and run it."""
        more = {"lakebed.rewrite.what": "clustering", "hoodie.layout.optimize.strategy": self._shape.layout}
        self._rewrite("cluster", {**CLUSTERING, **self._hashing, **more})

    @property
    def _hashing(self) -> dict[str, str]:
        """What the buckets of consistent hashing need that stands in no property of the table."""
        known = ("hash.field", "min.num.buckets", "max.num.buckets") if self._shape.index == "CONSISTENT" else ()
        return {f"hoodie.bucket.index.{name}": self._shape.options[f"hoodie.bucket.index.{name}"] for name in known}

    def _rewrite(self, what: str, options: Mapping[str, str]) -> None:
        self.changed[what] += self.table.rewrite(options=options).groups > 0

    def clean(self) -> None:
        """Remove file slices that the newest commit does not need."""
        result = self.table.expire(options={"hoodie.clean.commits.retained": 1})
        self.changed["clean"] += bool(result.deleted_files)

    def archive(self) -> None:
        """Take old instants off the timeline."""
        result = self.table.archive(
            options={
                **ARCHIVAL,
                **COMPACT,
                "hoodie.clean.commits.retained": 1,
                "hoodie.metadata.enable": self._shape.options["hoodie.metadata.enable"],
            }
        )
        self.changed["archive"] += bool(result.archived)

    def savepoint(self, instant: str) -> None:
        """Keep a commit's files."""
        self.table.tag(instant, instant)

    def delete_savepoint(self, instant: str) -> None:
        """Keep them no longer."""
        self.table.delete_tag(instant)

    def restore(self, instant: str) -> None:
        """Back to a savepoint."""
        self.table.rollback(f"tag:{instant}")
        self.changed["restore"] += 1

    def rollback(self, instant: Instant, before: Instant) -> None:
        """Take the newest commit back."""
        self.table.rollback(before)
        self.changed["rollback"] += 1

    @property
    def _writer_options(self) -> dict[str, str]:
        """What every writer of the table gives; the rest stands in the table's properties. How times make partitions
        does not in all tables of version 6."""
        stored = ("hoodie.table.", "hoodie.datasource.write.", "hoodie.record.merge", "hoodie.write.")
        stored += ("hoodie.populate.",)
        options = {key: value for key, value in self._shape.options.items() if not key.startswith(stored)}
        if self._shape.index.endswith("BLOOM"):  # the releases cannot send that lookup to Spark's tasks under Java 17
            options["hoodie.bloom.index.use.metadata"] = str(self._shape.metadata == "all").lower()
        if self._shape.partitioning == "custom":
            options[PARTITIONS] = self._shape.options[PARTITIONS]
        return options

    def read(self, columns: Sequence[str], where: str = "", more: Mapping[str, str] = {}) -> Texts:
        """The rows of the snapshot."""
        found = lakebed.open(self._path, more).read(list(columns), where or None).read_all()
        return [[as_text(row[name]) for name in columns] for row in found.to_pylist()]

    def changes(self, begin: str, end: str) -> list[Change]:
        """The changes of the commits in (begin, end]."""
        table = lakebed.open(self._path, {"cdc.enabled": "true"})
        rows = table.changes(["id", "ts", "x", "n", "flag"], after=begin, until=end).read_all().to_pylist()
        found: list[Change] = []
        for row in rows:
            kind = row["_row_kind"]
            if kind == "+U":
                found[-1] = ("u", found[-1][1], image(row))
            elif kind == "+I":
                found.append(("i", None, image(row)))
            else:
                found.append(("d", image(row), None))
        return found


def hudi_rs(paths: Sequence[Path], columns: Sequence[str]) -> list[Any]:
    """What hudi-rs reads of tables, or its error."""
    from tests.interop.hudi_ask import ask

    lines = ["\t".join((str(path), *columns)) for path in paths]
    return ask("LAKEBED_INTEROP_PYTHON", "hudi_rs_peer.py", [], lines)


def environment() -> None:
    """The variables of `./run interop`, where they are not set: for runs by hand."""
    root = HERE.parent.parent
    os.environ.setdefault("LAKEBED_HUDI_JVM_PYTHON", str(root / ".venv-hudi-jvm/bin/python"))
    os.environ.setdefault("LAKEBED_INTEROP_PYTHON", str(root / ".venv-interop/bin/python"))
    os.environ.setdefault("LAKEBED_HUDI_JARS", str(root / ".cache/jars/hudi"))
