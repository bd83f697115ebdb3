"""Simulated Paimon tables: with a primary key or without, with fixed, dynamic or no buckets, with and without a
compaction in the write."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import lakebed
from lakebed.formats.paimon.read.position import StreamPosition
from lakebed.formats.paimon.table import PaimonTable
from lakebed.kernel.files import Store
from lakebed.testing.simulation.changes import Row, State
from lakebed.testing.simulation.leftovers import named, taken_back
from lakebed.testing.simulation.memory import MemoryStore
from lakebed.testing.simulation.model import Head, Model
from lakebed.testing.simulation.schedule import Verbs
from lakebed.testing.simulation.subject import OLD_SECONDS, SCHEMA, Options, Subject, rows_of
from lakebed.verbs.stream import StreamReader
from lakebed.verbs.table import Table

_ROOTS = ("snapshot/snapshot-", "tag/tag-", "changelog/changelog-")
_KEPT_CHANGELOG = "changelog/changelog-"
_HINTS = ("EARLIEST", "LATEST")
_OF_BRANCH = re.compile(r"branch/branch-([^/]+)/(snapshot|schema)/\2-\d+$")
_VECTORS = ("deletion-vectors.enabled", "deletion-vectors.merge-on-read")
_STAYING = ("snapshot/", "tag/", "changelog/", "schema/", "branch/", "consumer/", "lakebed-", ".")


RESCALES: Verbs = {
    "writer": (
        ("rescale", 4), ("upsert", 4), ("append", 2), ("delete", 2), ("overwrite", 1), ("two_phase", 2),
        ("expire", 1), ("rewrite", 1), ("stream", 1),
    ),
    "service": (("rescale", 3), ("rewrite", 3), ("expire", 1), ("rollback", 1), ("tag", 1), ("orphans", 1)),
    "reader": (("read", 2), ("read_old", 2), ("stream", 2)),
}  # fmt: skip
"""The theme of tables whose rows move into other numbers of buckets."""
EXPIRES_PARTITIONS: Verbs = {
    "writer": (
        ("expire_partitions", 4), ("upsert", 4), ("append", 2), ("delete", 1), ("two_phase", 2),
        ("overwrite", 1), ("expire", 1), ("rewrite", 1), ("stream", 1),
    ),
    "service": (("expire_partitions", 4), ("rewrite", 2), ("expire", 1), ("tag", 1)),
    "reader": (("read", 2), ("read_old", 2), ("stream", 2)),
}  # fmt: skip
"""The theme of tables whose old partitions go."""


class PaimonSubject(Subject):
    """A Paimon table. Its snapshot files, put if absent, are its commits."""

    format = "paimon"
    by_sequence = True
    upkeep = (".lakebed/",)
    forwards_go_back = True
    stops_for_branches = True
    forgets_commits = True
    verbs: ClassVar[Verbs] = {
        "writer": (
            ("append", 3), ("upsert", 4), ("delete", 2), ("overwrite", 1), ("two_phase", 4), ("prepare_and_abort", 1),
            ("read", 1), ("rewrite", 1), ("expire", 1),
        ),
        "service": (("rewrite", 4), ("expire", 3), ("orphans", 1), ("tag", 2), ("untag", 1), ("rollback", 1)),
        "reader": (("read", 4), ("read_old", 2), ("read_tag", 1)),
    }  # fmt: skip
    themes: ClassVar[Sequence[Verbs]] = (
        {
            "writer": (("upsert", 3), ("overwrite", 2), ("tag", 3), ("expire", 3), ("rewrite", 2)),
            "service": (("expire", 3), ("tag", 2), ("rewrite", 2), ("untag", 1)),
        },
        {"writer": (("upsert", 3), ("delete", 3), ("rewrite", 3), ("expire", 1)), "service": (("rewrite", 1),)},
    )

    later_themes: ClassVar[Sequence[Verbs]] = (
        {
            "writer": (
                ("upsert", 4), ("append", 2), ("delete", 2), ("two_phase", 2), ("rewrite", 2), ("expire", 2),
                ("stream", 4),
            ),
            "service": (("rewrite", 3), ("expire", 3), ("overwrite", 1), ("rollback", 1)),
            "reader": (("stream", 1),),
        },
        {
            "writer": (
                ("prepare", 5), ("commit_prepared", 4), ("abort_prepared", 2), ("upsert", 2), ("rewrite", 1),
                ("expire", 1),
            ),
            "service": (("commit_prepared", 3), ("abort_prepared", 2), ("rewrite", 1), ("expire", 1)),
            "reader": (("stream", 2), ("commit_prepared", 1)),
        },
        {
            "writer": (
                ("upsert", 2), ("append", 1), ("two_phase", 1), ("tag", 2), ("branch", 3), ("write_branch", 5),
                ("fast_forward", 2), ("delete_branch", 1), ("expire", 1), ("rewrite", 1),
            ),
            "service": (
                ("tag", 2), ("branch", 2), ("write_branch", 2), ("fast_forward", 2), ("delete_branch", 1),
                ("untag", 1), ("expire", 2), ("rewrite", 1), ("orphans", 1),
            ),
            "reader": (("read_branch", 3), ("read", 1), ("stream", 2)),
        },
        {
            "writer": (
                ("alter", 4), ("upsert", 4), ("append", 2), ("delete", 1), ("overwrite", 1), ("two_phase", 2),
                ("rewrite", 1), ("expire", 1), ("stream", 1),
            ),
            "service": (("alter", 3), ("rewrite", 3), ("expire", 1), ("rollback", 1), ("tag", 1), ("orphans", 1)),
            "reader": (("read", 2), ("read_old", 2), ("alter", 1), ("stream", 2)),
        },
        RESCALES,
        EXPIRES_PARTITIONS,
    )  # fmt: skip
    partition_expiries: ClassVar[Options] = {
        "lakebed.expire.what": "partitions", "partition.expiration-strategy": "update-time",
        "partition.expiration-time": f"{OLD_SECONDS} s",
    }  # fmt: skip

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.bucket = chance.choice(["1", "2", "-1"]) if self.keyed else "-1"
        self.write_only = chance.random() < 0.4
        self.producer = chance.choice(["none", "none", "input", "lookup"]) if self.keyed else "none"
        self.kept = chance.choice(["1", "2", "1000"])
        self.tells_late = self.retells = self.producer == "lookup"
        self.tells_overwritten = self.keyed and not self.tells_late
        self.consumes = chance.random() < 0.4
        self.deletion_vectors = self.keyed and chance.random() < 0.15
        self.keeps_changelogs = self.producer != "none" and chance.random() < 0.5
        if not self.keyed and chance.random() < 0.3:
            self.bucket = chance.choice(["1", "2"])
        self.has_buckets = self.bucket != "-1"

    def create(self, store: Store) -> None:
        """Create the table."""
        keys = (["p", "id"] if self.partitioned else ["id"]) if self.keyed else []
        lakebed.create(store, "paimon", SCHEMA, keys, ["p"] if self.partitioned else [], self.table_options())

    def table_options(self) -> Options:
        """The options of the table."""
        options: dict[str, object] = {
            "bucket": self.bucket, "write-only": str(self.write_only).lower(), "num-sorted-run.compaction-trigger": "2",
            "file.format": "avro", "manifest.format": "avro", "file.compression": "none", "metadata.stats-mode": "none",
            "snapshot.num-retained.min": self.kept, "snapshot.num-retained.max": "1000",
            "snapshot.time-retained": "1 h", "manifest.merge-min-count": "3", "num-levels": "3",
        }  # fmt: skip
        if self.keyed:
            options |= {"changelog-producer": self.producer}
            options |= {"streaming-read-overwrite": "true"} if self.tells_overwritten else {}
            options |= {"dynamic-bucket.target-row-num": "3"} if self.bucket == "-1" else {}
            options |= {"changelog.time-retained": "1 h"} if self.keeps_changelogs else {}
            options |= dict.fromkeys(_VECTORS, "true") if self.deletion_vectors else {}
        else:
            options |= {"compaction.min.file-num": "2", "streaming-read-append-overwrite": "true"}
            options |= {"bucket-key": "id"} if self.has_buckets else {}
        return options

    def publishes(self, verb: str, path: str) -> bool:
        """Snapshot files come by commits and go by rollbacks and expiries, those of branches too. A schema is an
        alteration, or the first of a branch."""
        return path.startswith(("snapshot/snapshot-", "schema/schema-")) or bool(_OF_BRANCH.match(path))

    def points(self, path: str) -> bool:
        """The hints."""
        return "snapshot/" in path and path.endswith(_HINTS)

    def branch_point(self, model: Model, chance: random.Random) -> tuple[Any, Callable[[], Sequence[State]]]:
        """A tag, or no snapshot at all."""
        known = dict(model.tags)
        if not known or chance.random() < 0.2:
            return None, lambda: [frozenset()]
        name = chance.choice([*known])
        return f"tag:{name}", lambda: [known[name]]

    def branches(self, store: MemoryStore, table: Table) -> dict[str, Head]:
        """Snapshots of branches are not in the table's history."""
        matches = (_OF_BRANCH.match(path) for path in store.files)
        names = sorted({match[1] for match in matches if match and match[2] == "schema"})
        heads: dict[str, Head] = {}
        for name in names:
            branch = self.open(store, name)
            newest = branch.newest()
            key = f"{name} {newest.time}" if newest else ""
            rows = self.rows_before(store, key)
            heads[name] = Head(self._read(store, branch, key) if rows is None else rows, "")
        return heads

    def stream(self, store: Store, number: int, anew: bool) -> StreamReader:
        """All rows, then the changes. Some keep their progress in the table as a consumer's."""
        consumer = {"consumer-id": f"stream-{number}", "consumer.ignore-progress": str(anew).lower()}
        options = {"scan.mode": "latest-full", **(consumer if self.consumes else {})}
        return self.opened(store, options).stream(["id", "v"])

    def stands_at(self, position: str) -> str | None:
        """The snapshot before the one that is read next."""
        at = StreamPosition.parse(position)
        return None if at.next is None or at.whole or at.index else str(at.next - 1)

    def holds(self, position: str) -> bool:
        """A consumer keeps the number of the snapshot that it reads next."""
        return self.consumes and self.stands_at(position) is not None

    def needs(self, name: str, model: Model) -> Sequence[str]:
        """The next snapshot; where that is an overwrite, the one before it too, for the rows that it removed."""
        following = str(int(name) + 1)
        if following not in model.line and following not in model.removed:
            return ()
        return (following, name) if self.tells_overwritten and int(name) else (following,)

    def can_tell(self, store: Store, model: Model, name: str) -> bool:
        """Changelogs may outlive their snapshots; which rows an overwrite removed is told by the snapshot itself."""
        kept = not self.tells_overwritten and store.exists(f"changelog/changelog-{name}")
        return name in model.line or kept

    def other_reads(self, store: Store) -> Iterator[list[Row]]:
        """Rows without those of level 0, where deletion vectors make that all, after a full compaction."""
        if self.deletion_vectors:
            yield rows_of(self.opened(store, {_VECTORS[1]: "false"}).read(["id", "v"]))

    def complete(self, table: Table) -> None:
        """Rows move into the number of buckets that the table's definition names."""
        if self.has_buckets and isinstance(table, PaimonTable):
            table.rewrite(options={"bucket": table.table_schema.options["bucket"]})

    def tell_all(self, table: Table) -> None:
        """A compaction writes the changelog of what was not compacted yet."""
        if self.tells_late or self.deletion_vectors:
            keeping = {"snapshot.time-retained": "1000 d", "write-only": "false", "compact_strategy": "full"}
            table.rewrite(options=keeping)

    def rewrites(self, chance: random.Random) -> Options:
        """A minor or a full compaction, or a merge of manifests."""
        strategy = chance.choice(["minor", "full"])
        if chance.random() < 0.15:
            return {"lakebed.rewrite.what": "manifests"}
        return {"compact_strategy": strategy, "write-only": "false"}

    def expiries(self, chance: random.Random) -> Options:
        """The newest few snapshots stay."""
        kept = str(chance.randrange(1, 4))
        few = {"snapshot.num-retained.min": kept, "snapshot.num-retained.max": kept}
        return {**few, "snapshot.time-retained": "1 ms"}

    def orphans(self) -> Sequence[Options]:
        """Old files that no snapshot or tag names."""
        return ({"lakebed.expire.what": "orphan-files"},)

    def named(self, store: MemoryStore) -> set[str]:
        """What snapshots and tags lead to; all of the other folders of metadata stays."""
        return named(store.files, _roots(store)) | {path for path in store.files if path.startswith(_STAYING)}

    def needed(self, store: MemoryStore) -> set[str]:
        """Without the data files that only entries name which are taken back, and of a kept changelog only its changes:
        an expiry that died may have left the manifests of its snapshot, which went."""
        late = _late(store)
        roots = _roots(store) - late
        gone = taken_back(store.files, (root for root in roots if _KEPT_CHANGELOG not in root))
        stays = {path for path in store.files if path.startswith(_STAYING)} - late
        read = named(store.files, roots, of_root=_read_of) | stays
        return {path for path in read if path.rpartition("/")[2] not in gone}

    def wanted(self, store: MemoryStore) -> set[str]:
        """All files of a table without a snapshot: a clean-up has nothing there to go by."""
        return set() if any(path.startswith(_ROOTS[0]) for path in store.files) else set(store.files)


def _late(store: MemoryStore) -> set[str]:
    """The snapshot files before the oldest snapshot, with which readers begin: they came late, from the dead, or an
    expiry died when it removed them."""
    hint = store.files.get("snapshot/EARLIEST")
    numbers = {int(path.rpartition("-")[2]) for path in store.files if path.startswith(_ROOTS[0])}
    late = {number for number in numbers if hint and number < int(hint.data)}
    return {f"{_ROOTS[0]}{number}" for number in late}


def _read_of(path: str, root: Mapping[str, Any]) -> Any:
    """What readers take of a snapshot, a tag or a kept changelog. Only tables with a changelog producer keep these."""
    return root["changelogManifestList"] if _KEPT_CHANGELOG in path else root


def _roots(store: MemoryStore) -> set[str]:
    """The snapshots, tags and changelogs of all branches."""
    paths = {
        path: path.partition("/")[2].partition("/")[2] if path.startswith("branch/") else path for path in store.files
    }
    return {path for path, inner in paths.items() if inner.startswith(_ROOTS) and not inner.endswith(_HINTS)}
