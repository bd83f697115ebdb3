"""Simulated Iceberg tables, by path: their versions are the files `metadata/vN.metadata.json`, put if absent."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa

import lakebed
from lakebed.formats.iceberg.read.stream import StreamPosition
from lakebed.kernel.files import Store
from lakebed.testing.simulation.columns import Alteration
from lakebed.testing.simulation.leftovers import named
from lakebed.testing.simulation.memory import MemoryStore
from lakebed.testing.simulation.model import Model
from lakebed.testing.simulation.schedule import Verbs
from lakebed.testing.simulation.subject import SCHEMA, Options, Subject

_VERSION = re.compile(r"metadata/v\d+\.metadata\.json")


class IcebergSubject(Subject):
    """An Iceberg table of format version 2 or 3."""

    format = "iceberg"
    appends_by_key = False
    tags_go_back = False
    tells_differences = True
    stream_options: ClassVar[Options] = {"read.start-commit": "earliest"}
    """With all rows of the table: the newest snapshot alone tells nothing where the one before it has expired."""
    forgets_after: ClassVar[float] = 5
    """A version is in the logs of the two versions after it, and in those of the two after these. Behind them only a
    snapshot can tell whose it was, and that may have expired."""
    forgets_times_after: ClassVar[float] = 3
    """The third version after one removes its file. Then the logs still have its time, but where clocks are behind that
    of the version before, each version has the same one."""
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
            "writer": (("append", 2), ("upsert", 3), ("overwrite", 2), ("rewrite", 2)),
            "service": (("rewrite", 4), ("expire", 1)),
        },
    )
    later_themes: ClassVar[Sequence[Verbs]] = (
        {
            "writer": (
                ("upsert", 2),
                ("append", 1),
                ("two_phase", 1),
                ("branch", 2),
                ("write_branch", 5),
                ("fast_forward", 2),
                ("delete_branch", 1),
                ("expire", 1),
                ("rewrite", 1),
            ),
            "service": (
                ("branch", 2),
                ("write_branch", 2),
                ("fast_forward", 2),
                ("delete_branch", 1),
                ("expire", 2),
                ("tag", 1),
                ("rewrite", 1),
                ("rollback", 1),
                ("orphans", 1),
            ),
            "reader": (("read_branch", 3), ("read", 2), ("read_old", 1)),
        },
        {  # without overwrites: which rows they replace depends on the partition fields
            "writer": (
                ("alter", 4),
                ("upsert", 4),
                ("append", 2),
                ("delete", 1),
                ("two_phase", 2),
                ("rewrite", 1),
                ("expire", 1),
            ),
            "service": (("alter", 3), ("rewrite", 3), ("expire", 1), ("rollback", 1), ("tag", 1), ("orphans", 1)),
            "reader": (("read", 3), ("read_old", 2), ("alter", 1)),
        },
        {
            "writer": (
                ("stream", 4),
                ("prepare", 5),
                ("commit_prepared", 4),
                ("abort_prepared", 2),
                ("upsert", 2),
                ("rewrite", 1),
                ("expire", 1),
            ),
            "service": (("commit_prepared", 3), ("abort_prepared", 2), ("rewrite", 1), ("expire", 1), ("orphans", 1)),
            "reader": (("stream", 3), ("commit_prepared", 1), ("rollback", 1)),
        },
    )

    newest_themes: ClassVar[Sequence[Verbs]] = (
        {
            "writer": (
                ("stage", 4),
                ("publish", 5),
                ("append", 2),
                ("upsert", 2),
                ("statistics", 2),
                ("rewrite", 1),
                ("expire", 1),
            ),
            "service": (
                ("publish", 4),
                ("stage", 2),
                ("statistics", 2),
                ("repair", 2),
                ("expire", 2),
                ("rewrite", 1),
                ("rollback", 1),
                ("orphans", 1),
            ),
            "reader": (("read", 2), ("repair", 2), ("publish", 1), ("statistics", 1), ("read_old", 1)),
        },
    )

    pointers: ClassVar[tuple[str, ...]] = ("metadata/version-hint.text",)
    """The files that say which metadata file is the current one."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.version = chance.choice(["2", "3"])
        self.merge_on_read = chance.random() < 0.5

    def create(self, store: Store) -> None:
        """Create the table."""
        lakebed.create(store, "iceberg", *self.definition())

    def definition(self) -> tuple[pa.Schema, Sequence[str], Sequence[str], Options]:
        """The columns, keys, partition columns and options of the table."""
        mode = "merge-on-read" if self.merge_on_read else "copy-on-write"
        options = {
            "format-version": self.version, "write.delete.mode": mode, "write.update.mode": mode,
            "write.merge.mode": mode, "commit.retry.num-retries": "4", "write.metadata.metrics.default": "none",
            "write.metadata.previous-versions-max": "2", "write.metadata.delete-after-commit.enabled": "true",
            "commit.manifest.min-count-to-merge": "3", "write.wap.enabled": "true",
            "write.parquet.compression-codec": "uncompressed",
        }  # fmt: skip
        return SCHEMA, ["id"] if self.keyed else [], ["p"] if self.partitioned else [], options

    def publishes(self, verb: str, path: str) -> bool:
        """Metadata files. The hint only says where to begin looking."""
        return verb == "put" and path.startswith("metadata/v")

    def points(self, path: str) -> bool:
        """Metadata files and the hint. A snapshot's own files begin with its manifest list."""
        return path.endswith((".metadata.json", *self.pointers))

    def rewrites(self, chance: random.Random) -> Options:
        """Data files, position deletes or manifests."""
        what = chance.choice(["data-files", "data-files", "manifests", "position-deletes"])
        if what == "manifests":
            return {"lakebed.rewrite.what": what}
        if what == "position-deletes":
            return {"lakebed.rewrite.what": what, "rewrite-all": True}
        return {"rewrite-all": True, "min-input-files": 2, "partial-progress.enabled": chance.random() < 0.3}

    def alteration(self, chance: random.Random, names: Sequence[str]) -> tuple[Any, Alteration | None]:
        """A change of columns, or of the partition fields, the sort order, how rows are deleted, or the version."""
        other: list[Any] = [
            lakebed.add_partition_field("bucket(2, id)"), lakebed.drop_partition_field("bucket(2, id)"),
            lakebed.set_sort_order("v desc"), lakebed.set_sort_order(), lakebed.set_option("format-version", 3),
            *(
                lakebed.set_option(f"write.{verb}.mode", mode)
                for verb in ("delete", "update", "merge") for mode in ("copy-on-write", "merge-on-read")
            ),
        ]  # fmt: skip
        return (chance.choice(other), None) if chance.random() < 0.4 else super().alteration(chance, names)

    def stands_at(self, position: str) -> str | None:
        """The snapshot that a stream has read."""
        place = StreamPosition.parse(position)
        return None if place.whole else str(place.snapshot or "")

    def tells_each(self, start: str) -> bool:
        """A stream tells the difference of two snapshots."""
        return False

    def needs(self, name: str, model: Model) -> Sequence[str]:
        """The snapshot from which the difference is told."""
        return (name,) if name else ()

    def expiries(self, chance: random.Random) -> Options:
        """The newest few snapshots stay."""
        return {"older-than": "2100-01-01", "retain-last": chance.randrange(1, 4)}

    def orphans(self) -> Sequence[Options]:
        """Old files that no metadata names."""
        return ({"expire-snapshots": False, "remove-orphan-files": True},)

    def named(self, store: MemoryStore) -> set[str]:
        """What the newest metadata file leads to."""
        return named(store.files, [self.current(store)]) | set(self.pointers)

    def needed(self, store: MemoryStore) -> set[str]:
        """Without the files that only entries of deletes name."""
        return named(store.files, [self.current(store)], only_live=True) | set(self.pointers)

    def current(self, store: MemoryStore) -> str:
        """The path of the current metadata file."""
        return _newest(store)


def _newest(store: MemoryStore) -> str:
    """The metadata file of the newest version."""
    versions = [path for path in store.files if _VERSION.fullmatch(path)]
    return max(versions, key=lambda path: int(path.removeprefix("metadata/v").partition(".")[0]))
