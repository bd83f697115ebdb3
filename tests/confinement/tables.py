"""The tables that hostile texts are put into, as their files by path, and which files' texts are tried.

Hudi's and Paimon's are golden tables, with what is pending or dead there. Iceberg's metadata has absolute locations, so
its tables are made where they are going to be.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import lakebed
from lakebed.errors import UnsupportedError
from tests.confinement import documents
from tests.golden import unpack
from tests.tables.iceberg.lake import Lake
from tests.tables.paimon.evolved import evolving, put

Content = dict[str, bytes]
"""A table: its files by path."""


@dataclass(frozen=True)
class Kind:
    """Files of a table that have the same texts: those that match `pattern`, whose places match `places`."""

    table: str
    name: str
    pattern: str
    places: str = ".*"

    def files(self, content: Mapping[str, bytes]) -> list[str]:
        """The paths of these files, sorted."""
        return sorted(path for path in content if re.fullmatch(self.pattern, path))

    def fields(self, content: Mapping[str, bytes]) -> list[str]:
        """The places of all texts in these files."""
        found = {place for path in self.files(content) for place in documents.places(content[path])}
        return sorted(place for place in found if re.fullmatch(self.places, place))


def some_rows(location: str | Path, options: Mapping[str, str] = {}) -> pa.Table:
    """Three rows of a table, none where lakebed does not read it, without Hudi's meta columns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = lakebed.open(location, options)
        try:
            rows = table.read().read_all()[:3]
        except UnsupportedError:
            rows = table.schema.empty_table()
    return rows.select([name for name in rows.column_names if not name.startswith("_hoodie_")])


def read(folder: Path) -> Content:
    """The files of a folder. Hadoop's checksums are left out, since they would tell of a change."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def lay(content: Mapping[str, bytes], folder: Path) -> None:
    """A table's files in a folder, in place of what was there."""
    shutil.rmtree(folder, ignore_errors=True)
    for path, data in content.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        os.utime(place, (1.6e9, 1.6e9))


def _golden(
    form: str, name: str, change: Callable[[Content], object] = lambda content: None
) -> Callable[[str], Content]:
    def make(_: str, __: Mapping[str, str]) -> Content:
        content = read(unpack(form, name))
        change(content)
        return content

    return make


# ---- Hudi ----


def _cut_off(content: Content, done: str) -> None:
    """Take the completed files of an action away, as of one that died."""
    for path in [path for path in content if re.fullmatch(done, path)]:
        del content[path]


def _dead_write(content: Content) -> None:
    """The newest write died, with markers of what it wrote."""
    newest = max(path for path in content if re.fullmatch(r"\.hoodie/(timeline/)?\d+(_\d+)?\.deltacommit", path))
    instant = re.findall(r"\d{17}", newest)[0]
    del content[newest]
    files = [path for path in content if path.endswith(".parquet")][:2]
    content[f".hoodie/.temp/{instant}/MARKERS.type"] = b"TIMELINE_SERVER_BASED"
    for number, path in enumerate(files):
        content[f".hoodie/.temp/{instant}/MARKERS{number}"] = f"{path}.marker.CREATE".encode()


def _restored(content: Content) -> None:
    """A restore to the savepoint died before its end."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "table")
        lay(content, place)
        table = lakebed.open(place)
        table.rollback(f"tag:{table.refs()[0].name}")
        content.clear()
        content.update(read(place))
    _cut_off(content, r"\.hoodie/(timeline/)?\d+(_\d+)?\.restore")


# ---- Paimon ----


def _with_large_values(_: str, __: Mapping[str, str]) -> Content:
    """Large values in files of their own, one of which a later file replaces in part."""
    schema = pa.schema([("id", pa.int64()), ("pic", pa.binary())])
    with tempfile.TemporaryDirectory() as folder:
        table = evolving(Path(folder, "table"), schema, ["pic"])
        put(
            table,
            (None, pa.table({"id": [0, 1, 2, 3]}), "ids.parquet"),
            (None, [b"a", b"b" * 300, None, b""], "a.blob"),
        )
        put(table, (2, [b"two", -2], "b.blob"))
        return read(Path(table.location))


# ---- Iceberg ----

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.string())])


def some(*ids: int, value: str = "v") -> pa.Table:
    """Rows of the Iceberg tables."""
    parts = ["a" if number % 2 else "b" for number in ids]
    return pa.table({"id": ids, "part": parts, "value": [value] * len(ids)}, SCHEMA)


def _iceberg(version: int) -> Callable[[str, Mapping[str, str]], Content]:
    """Several files, manifests, deletes, statistics, a tag, a branch and a log of metadata files."""

    def make(location: str, storage: Mapping[str, str]) -> Content:
        options = {
            "format-version": str(version), "write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read",
            "write.merge.mode": "merge-on-read", "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "3", **storage,
        }  # fmt: skip
        table = lakebed.create(location, "iceberg", SCHEMA, ["id"], ["part"], options)
        for turn in range(3):
            table.write(some(*range(turn * 4, turn * 4 + 4), value=f"v{turn}"))
        table.tag("first", table.history()[0].time)
        table.branch("side")
        if version == 2:
            made = Lake.at(location)
            for task in made.tasks[:2]:
                made.delete_positions({task.data.path: [0]})
        table = lakebed.open(location, dict(storage))
        table.write(some(1, 4, value="new"), mode="upsert")
        table.compute_table_stats()
        table.compute_partition_stats()
        return {}

    return make


MADE: Mapping[str, Callable[[str, Mapping[str, str]], Content]] = {
    "hudi mor_v6": _golden("hudi", "mor_v6"),
    "hudi cow_v9": _golden("hudi", "cow_v9"),
    "hudi cdc_mor_v9": _golden("hudi", "cdc_mor_v9"),
    "hudi mor_mdt_v9": _golden("hudi", "mor_mdt_v9"),
    "hudi archived_savepoint_v6": _golden("hudi", "archived_savepoint_v6"),
    "hudi archived_savepoint_v9": _golden("hudi", "archived_savepoint_v9"),
    "hudi consistent_hash_h015": _golden("hudi", "consistent_hash_h015"),
    "hudi cut-off rollback": _golden(
        "hudi", "mor_rollback_v9", lambda content: _cut_off(content, r".*/\d+_\d+\.rollback")
    ),
    "hudi cut-off rollback v6": _golden("hudi", "mor_rollback_v6", lambda content: _cut_off(content, r".*\.rollback")),
    "hudi cut-off restore": _golden("hudi", "mor_v6", _restored),
    "hudi dead write": _golden("hudi", "mor_v9", _dead_write),
    "hudi dead write v6": _golden("hudi", "mor_v6", _dead_write),
    "hudi cut-off clean": _golden("hudi", "mor_v9", lambda content: _cut_off(content, r".*\d\.clean")),
    "hudi bootstrap_h015": _golden("hudi", "bootstrap_h015"),
    "hudi bootstrap_full_h015": _golden("hudi", "bootstrap_full_h015"),
    "paimon pk_dv": _golden("paimon", "pk_dv"),
    "paimon pk_dynamic": _golden("paimon", "pk_dynamic"),
    "paimon tags_branches": _golden("paimon", "tags_branches"),
    "paimon cl_lookup": _golden("paimon", "cl_lookup"),
    "paimon append_dv": _golden("paimon", "append_dv"),
    "paimon pk_null_part": _golden("paimon", "pk_null_part"),
    "paimon large values": _with_large_values,
    "iceberg v2": _iceberg(2),
    "iceberg v3": _iceberg(3),
}
_STATE = r"\.hoodie/(timeline/)?\d+(_\d+)?\."
_ARCHIVED = r".*([pP]ath|[fF]ile|action|[pP]artition).*"
KINDS = (
    Kind("hudi mor_v6", "commit", _STATE + r"(deltacommit|commit)"),
    Kind("hudi mor_v6", "planned-write", _STATE + r"deltacommit\.inflight"),
    Kind("hudi mor_v6", "compaction", _STATE + r"compaction\.requested"),
    Kind("hudi mor_v6", "savepoint", _STATE + r"savepoint"),
    Kind("hudi mor_v6", "clean", _STATE + r"clean(\.requested)?"),
    Kind("hudi mor_v6", "properties", r"\.hoodie/hoodie\.properties"),
    Kind("hudi mor_v6", "partition", r".*/\.hoodie_partition_metadata"),
    Kind("hudi mor_v6", "log", r".*\.log\..*", r"header\..*|record\._hoodie.*"),
    Kind("hudi mor_v6", "base", r"[^.].*\.parquet", "_hoodie.*"),
    Kind("hudi cow_v9", "commit", _STATE + r"(replacecommit|commit)"),
    Kind("hudi cow_v9", "clustering", _STATE + r"clustering\.requested"),
    Kind("hudi cut-off clean", "plan", _STATE + r"clean\.requested"),
    Kind("hudi cut-off rollback", "plan", _STATE + r"rollback\.requested"),
    Kind("hudi cut-off rollback v6", "plan", _STATE + r"rollback\.requested"),
    Kind("hudi cut-off restore", "plan", _STATE + r"(restore|rollback)\.requested"),
    Kind("hudi dead write", "markers", r"\.hoodie/\.temp/.*/MARKERS\d"),
    Kind("hudi dead write v6", "markers", r"\.hoodie/\.temp/.*/MARKERS\d"),
    Kind("hudi cdc_mor_v9", "commit", _STATE + r"deltacommit"),
    Kind("hudi mor_mdt_v9", "metadata-table", r"\.hoodie/metadata/[^.].*", r"(key|record|type|filesystem|.*[nN]ame).*"),
    Kind("hudi mor_mdt_v9", "index-definitions", r"\.hoodie/\.index_defs/.*"),
    Kind("hudi archived_savepoint_v6", "archive", r"\.hoodie/history/.*", _ARCHIVED),
    Kind("hudi archived_savepoint_v6", "savepoint", _STATE + r"savepoint"),
    Kind("hudi archived_savepoint_v9", "archive", r".*/history/.*\.parquet", _ARCHIVED),
    Kind("hudi archived_savepoint_v9", "archive-list", r".*/history/(manifest_\d+|_version_)"),
    Kind("hudi archived_savepoint_v9", "savepoint", _STATE + r"savepoint"),
    Kind("hudi consistent_hash_h015", "hashing", r".*hashing_meta"),
    Kind("hudi consistent_hash_h015", "plan", _STATE + r"replacecommit\.requested"),
    *(
        Kind(f"hudi {name}", kind, pattern)
        for name in ("bootstrap_h015", "bootstrap_full_h015")
        for kind, pattern in (
            ("properties", r"\.hoodie/hoodie\.properties"),
            ("commit", _STATE + r"(deltacommit|commit)"),
        )
    ),
    Kind("paimon pk_dv", "snapshot", r"snapshot/snapshot-\d+"),
    Kind("paimon pk_dv", "hint", r"snapshot/(LATEST|EARLIEST)"),
    Kind("paimon pk_dv", "manifest-list", r"manifest/manifest-list-.*"),
    Kind("paimon pk_dv", "manifest", r"manifest/manifest-[^l].*"),
    Kind("paimon pk_dv", "index-manifest", r"manifest/index-manifest-.*"),
    Kind("paimon pk_dv", "schema", r"schema/schema-\d+"),
    Kind("paimon pk_dynamic", "index-manifest", r"manifest/index-manifest-.*"),
    Kind("paimon pk_dynamic", "manifest", r"manifest/manifest-[^l].*"),
    Kind("paimon pk_dynamic", "schema", r"schema/schema-\d+"),
    Kind("paimon tags_branches", "tag", r"tag/tag-.*"),
    Kind("paimon tags_branches", "branch", r"branch/branch-b1/(snapshot|tag)/(snapshot|tag)-.*"),
    Kind("paimon tags_branches", "branch-schema", r"branch/branch-b1/schema/.*"),
    Kind("paimon tags_branches", "consumer", r"consumer/.*"),
    Kind("paimon cl_lookup", "snapshot", r"snapshot/snapshot-\d+"),
    Kind("paimon cl_lookup", "schema", r"schema/schema-\d+"),
    Kind("paimon append_dv", "manifest", r"manifest/manifest-[^l].*"),
    Kind("paimon pk_null_part", "schema", r"schema/schema-\d+"),
    Kind("paimon large values", "manifest", r"manifest/manifest-[^l].*"),
    Kind("paimon large values", "schema", r"schema/schema-\d+"),
    *(
        Kind(f"iceberg {version}", name, pattern, places)
        for version in ("v2", "v3")
        for name, pattern, places in (
            ("metadata", r"metadata/v\d+\.metadata\.json", ".*"),
            ("hint", r"metadata/version-hint\.text", ".*"),
            ("manifest-list", r"metadata/snap-.*\.avro", ".*"),
            ("manifest", r"metadata/(?!snap-).*\.avro", ".*"),
            ("puffin", r".*\.(puffin|stats)", ".*"),
        )
    ),
)
"""What is tried."""
