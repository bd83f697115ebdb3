"""Simulated Hudi tables of versions 6, 8 and 9, copy-on-write and merge-on-read: their commits are the completed
instants of the timeline."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import ClassVar

import lakebed
from lakebed.formats.hudi.read.position import StreamPosition
from lakebed.kernel.files import Store
from lakebed.testing.simulation.memory import MemoryStore
from lakebed.testing.simulation.model import Model, Seen
from lakebed.testing.simulation.schedule import Verbs
from lakebed.testing.simulation.subject import SCHEMA, Options, Subject, rows_of
from lakebed.verbs.stream import StreamReader

_PENDING = (".requested", ".inflight")
_ACTIONS = (
    ".commit", ".deltacommit", ".replacecommit", ".clean", ".rollback", ".restore", ".savepoint", ".compaction",
    ".clustering", ".logcompaction", ".indexing",
)  # fmt: skip
_OF_OTHERS = ("rollback", "clean", "savepoint")
"""Actions whose instants say nothing of rows. A savepoint has the time of the instant that it keeps."""

_TIMELINES = (".hoodie", ".hoodie/timeline")
_MARK = re.compile(r"\.hoodie/\.(?:temp|heartbeat)/(\d{17})")
_OUTCOME = re.compile(r"\.hoodie/(?:timeline/)?\.(\d{17})\.outcome$")
_INSTANT = re.compile(r"_(\d{17})\.(?:parquet$|log\.)")
"""The instant in the name of a base file, or of a log file: up to version 6 that of its slice's base file."""


class HudiSubject(Subject):
    """A Hudi table. Writers of lakebed alone need no lock of Hudi's."""

    format = "hudi"
    appends_by_key = False
    misses_new = True
    keeps_all = True
    table_overwrites: ClassVar[Options] = {"hoodie.datasource.write.operation": "insert_overwrite_table"}
    partition_drops: ClassVar[Options] = {"hoodie.datasource.write.operation": "delete_partition"}
    aborts_bind = False  # few rows are in the messages themselves
    keeps_order = False
    upkeep = (".hoodie/",)
    verbs: ClassVar[Verbs] = {
        "writer": (
            ("append", 2), ("upsert", 5), ("delete", 2), ("overwrite", 1), ("two_phase", 3), ("prepare_and_abort", 1),
            ("read", 1), ("rewrite", 1), ("expire", 1), ("post_commit", 1),
        ),
        "service": (
            ("rewrite", 4), ("expire", 3), ("archive", 4), ("failed_writes", 2), ("orphans", 1), ("tag", 2),
            ("untag", 1), ("rollback", 1),
        ),
        "reader": (("read", 4), ("read_old", 2), ("read_tag", 1)),
    }  # fmt: skip
    themes: ClassVar[Sequence[Verbs]] = (
        {
            "writer": (("upsert", 6), ("tag", 2), ("expire", 3), ("rewrite", 2)),
            "service": (("expire", 3), ("tag", 2), ("untag", 1)),
        },
        {
            "writer": (("upsert", 6), ("archive", 2), ("expire", 2), ("rewrite", 1)),
            "service": (("archive", 3), ("expire", 2), ("rewrite", 1), ("tag", 1)),
        },
    )

    later_themes: ClassVar[Sequence[Verbs]] = (
        {
            "writer": (
                ("upsert", 5), ("delete", 2), ("two_phase", 1), ("rewrite", 2), ("expire", 1), ("archive", 1),
                ("stream", 4),
            ),
            "service": (("rewrite", 3), ("expire", 1), ("archive", 2), ("overwrite", 1)),
            "reader": (("stream", 1),),
        },
        {
            "writer": (
                ("prepare", 5), ("commit_prepared", 4), ("abort_prepared", 2), ("upsert", 2), ("rewrite", 1),
                ("archive", 1),
            ),
            "service": (("commit_prepared", 3), ("abort_prepared", 2), ("rewrite", 1), ("failed_writes", 1)),
            "reader": (("stream", 2), ("commit_prepared", 1)),
        },
        {
            "writer": (
                ("upsert", 4), ("overwrite", 2), ("overwrite_table", 2), ("drop_partitions", 2), ("rewrite", 2),
                ("expire", 1), ("read", 1),
            ),
            "service": (("rewrite", 3), ("archive", 1), ("expire", 1), ("drop_partitions", 1)),
        },
        {
            "writer": (("upsert", 5), ("delete", 1), ("tag", 4), ("restore", 2), ("rewrite", 2), ("overwrite", 1)),
            "service": (("rewrite", 2), ("restore", 1), ("tag", 1), ("untag", 1), ("archive", 1)),
            "reader": (("read", 2), ("stream", 2)),
        },
        {
            "writer": (("upsert", 5), ("delete", 2), ("rewrite", 3), ("schedule", 2), ("withdraw", 1)),
            "service": (("rewrite", 4), ("schedule", 2), ("withdraw", 1), ("expire", 1)),
            "reader": (("read", 2), ("stream", 1)),
        },
    )  # fmt: skip

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.keyed = True
        self.version = chance.choice(["6", "8", "9"])
        self.keeps_newest = self.version != "6"
        self.merge_on_read = chance.random() < 0.5
        self.metadata = chance.random() < 0.25
        self.index = chance.choice(["", "", "", "BUCKET" if self.merge_on_read else "", "RECORD_INDEX"])
        self.keeps_changes = chance.random() < 0.3
        self.metadata |= self.index == "RECORD_INDEX"

    @property
    def open_options(self) -> Options:
        """Small Bloom filters, for few rows, and no compression: both would be much of a run."""
        return {"hoodie.index.bloom.num_entries": "100", "hoodie.parquet.compression.codec": "uncompressed"}

    def create(self, store: Store) -> None:
        """Create the table."""
        options: dict[str, object] = {
            "hoodie.table.type": "MERGE_ON_READ" if self.merge_on_read else "COPY_ON_WRITE",
            "hoodie.write.table.version": self.version, "hoodie.metadata.enable": str(self.metadata).lower(),
            "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
            "hoodie.table.cdc.enabled": str(self.keeps_changes).lower(),
        }  # fmt: skip
        options |= self.index_options()
        lakebed.create(store, "hudi", SCHEMA, ["id"], ["p"] if self.partitioned else [], options)

    def index_options(self) -> Options:
        """Options of the table's index."""
        if self.index == "BUCKET":
            return {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
        if self.index:
            return {"hoodie.index.type": self.index, "hoodie.metadata.record.index.enable": "true"}
        return {}

    def see(self, store: MemoryStore) -> Seen:
        """The table as it is, with its archived instants."""
        table = self.open(store)
        done = [one for one in table.history(archived=True) if one.state == "completed"]
        self.completions |= {one.time: one.completed or one.time for one in done}
        line = tuple(one.time for one in done if one.action not in _OF_OTHERS)
        newest = max(line, key=self.completions.__getitem__, default="")
        return Seen(rows_of(table.read(["id", "v"])), newest, line)

    def publishes(self, verb: str, path: str) -> bool:
        """Completed instants come by commits, and go by restores and archivals."""
        folder, _, name = path.rpartition("/")
        return folder in _TIMELINES and name.endswith(_ACTIONS) and not name.endswith(_PENDING)

    def plans(self, verb: str, path: str) -> bool:
        """The instant is inflight next. At its completion a writer has the lock, which it may not hold for long."""
        return verb == "put" and path.rpartition("/")[0] in _TIMELINES and path.endswith(".inflight")

    def position(self, name: str) -> str:
        """An instant's time of completion, by which versions 8 and 9 order snapshots, else its own time."""
        return self.completions.get(name, name) if self.version != "6" else name

    @property
    def last_write_options(self) -> Options:
        """A clustering may be planned that nobody runs any more: it loses."""
        return {**self.write_options, "hoodie.clustering.updates.strategy": "SparkAllowUpdateStrategy"}

    def rewrites(self, chance: random.Random) -> Options:
        """A compaction, of the log alone or into base files, or a clustering."""
        due = {"hoodie.compact.inline.max.delta.commits": chance.choice([1, 2])}
        kinds = ["", "", "clustering"] if self.index != "BUCKET" else [""]
        what = chance.choice([*kinds, "log-compaction"] if self.merge_on_read else kinds)
        return {**due, "lakebed.rewrite.what": what, "hoodie.log.compaction.blocks.threshold": 2} if what else due

    def stream(self, store: Store, number: int, anew: bool) -> StreamReader:
        """All rows, then the rows before and after each commit."""
        options = {**self.open_options, "cdc.enabled": "true", "read.start-commit": "earliest"}
        return lakebed.open(store, options).stream(["id", "v"])

    def stands_at(self, position: str) -> str | None:
        """The instant that was completed last of those that were told. Below table version 8 streams go by the times
        at which instants were requested, and tell one that is completed late later than it was there."""
        until = StreamPosition.parse(position).until
        if not until or self.version == "6":
            return None if until else ""
        return next((time for time, completed in self.completions.items() if completed == until), None)

    def tells_each(self, start: str) -> bool:
        """The first batch is the table as it stands."""
        return bool(start)

    def needs(self, name: str, model: Model) -> Sequence[str]:
        """The instants that the next batch reads."""
        return (name,)

    def can_tell(self, store: Store, model: Model, name: str) -> bool:
        """Cleans take files that tell what a commit changed."""
        return all(one.action != "clean" for one in self.open(store).history(archived=True))

    def expiries(self, chance: random.Random) -> Options:
        """A clean that retains the newest few commits."""
        return {"hoodie.clean.commits.retained": chance.choice([1, 1, 2, 3])}

    def archives(self, chance: random.Random) -> Options:
        """The newest few commits stay in the active timeline."""
        kept = chance.choice([2, 2, 3, 4])
        few = {"hoodie.keep.min.commits": kept, "hoodie.keep.max.commits": kept + 1}
        return {**few, "hoodie.clean.commits.retained": 1, "hoodie.compact.inline.max.delta.commits": 1}

    def orphans(self) -> Sequence[Options]:
        """Failed writes are rolled back, and files go that no state of the table has."""
        return ({"lakebed.expire.what": "failed-writes"}, {"lakebed.expire.what": "orphan-files"})

    def named(self, store: MemoryStore) -> set[str]:
        """Data files of completed instants, and metadata but for marks of instants that are over, and outcomes of those
        that the timeline has no more."""
        done, begun = _instants(store)
        return {path for path in store.files if _is_named(path, set(self.completions), begun, done | begun)}

    def wanted(self, store: MemoryStore) -> set[str]:
        """Data files of instants that have begun."""
        done, begun = _instants(store)
        return {path for path in store.files if _is_named(path, done | begun, begun, done | begun)}


def _instants(store: MemoryStore) -> tuple[set[str], set[str]]:
    """The times of the active timeline's instants: completed ones, and those that have only begun."""
    names = [path.rpartition("/")[2] for path in store.files if path.rpartition("/")[0] in _TIMELINES]
    names = [name for name in names if name[:17].isdigit()]
    withdrawn = {path.rpartition("/")[2][1:18] for path in store.files if _is_withdrawal(store, path)}
    done = {name[:17] for name in names if not name.endswith(_PENDING)} - withdrawn
    return done, {name[:17] for name in names} - done


def _is_withdrawal(store: MemoryStore, path: str) -> bool:
    """Whether a file says that whatever completed file of an instant may land is of no account."""
    return path.endswith(".outcome") and store.files[path].data == b"withdrawn"


def _is_named(path: str, known: set[str], begun: set[str], timeline: set[str]) -> bool:
    if path.startswith(".hoodie/"):
        mark, outcome = _MARK.match(path), _OUTCOME.match(path)
        return (mark is None or mark[1] in begun) and (outcome is None or outcome[1] in timeline)
    instant = _INSTANT.search(path.rpartition("/")[2])
    return instant is None or instant[1] in known
