"""Plays the life of a golden `archived_*` table again: commit by commit, with the archival left to lakebed.

The states of every instant are taken from the golden table. Of active instants these are the very files; of archived
ones of timeline layout 2 the bytes that the archive holds (an inflight file, which it has not, is empty); of layout
1 files made of the archived records: JSON of the commit metadata, Avro containers of plans and cleans. `meta.json` says
which instants each step made and which ones the JVM's archival then took away.
"""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq

from lakebed.formats.hudi.archive.options import ARCHIVE
from lakebed.formats.hudi.codec.archive_v1 import ArchivedEntry, parse_archive
from lakebed.formats.hudi.layout import COMPLETES_AS, parse_state_name
from lakebed.kernel.scratch import Scratch
from tests.golden import expected, unpack

Files = dict[str, bytes]


@dataclass(frozen=True)
class Step:
    """One write of the table: the state files that it made before its archival and after it (an inline compaction),
    and what the JVM archived."""

    what: str
    before: Files
    after: Files
    archived: tuple[str, ...]


@dataclass(frozen=True)
class Replay:
    """A table whose timeline was emptied, and the steps that fill it again."""

    table: Path
    timeline: Path
    archive: Path
    options: dict[str, str]
    steps: tuple[Step, ...]
    active: frozenset[str]
    """Names of the state files that the JVM left in the active timeline at the end."""

    def play(self, step: Step) -> Iterator[None]:
        """Adds the step's files; the archival is run where this yields."""
        for name, data in step.before.items():
            (self.timeline / name).write_bytes(data)
        yield
        for name, data in step.after.items():
            (self.timeline / name).write_bytes(data)

    def state_names(self) -> set[str]:
        """Names of the state files that are active now."""
        return {path.name for path in self.timeline.iterdir() if parse_state_name(path.name)}


def replay_of(name: str, folder: Path) -> Replay:
    """The golden table `name`, unpacked into `folder` and made ready."""
    table = unpack("hudi", name, into=folder)
    meta = json.loads((expected(table) / "meta.json").read_text())
    properties = meta["hoodie_properties"]
    layout2 = properties["hoodie.timeline.layout.version"] == "2"
    timeline = table / ".hoodie" / ("timeline" if layout2 else "")
    archive = timeline / ("history" if layout2 else properties["hoodie.archivelog.folder"])
    merge_on_read = properties["hoodie.table.type"] == "MERGE_ON_READ"
    files = {p.name: p.read_bytes() for p in timeline.iterdir() if p.is_file() and parse_state_name(p.name)}
    active = frozenset(files)
    files |= _from_lsm(archive, merge_on_read) if layout2 else _from_v1(archive)
    shutil.rmtree(archive)
    for gone in active:
        os.unlink(timeline / gone)
    options = {key: value for key, value in meta["write_options"].items() if ARCHIVE.knows(key)}
    if name.endswith("h015"):  # a key that 0.15.0 does not know
        options.pop("hoodie.clean.commits.retained", None)
    by_instant: dict[tuple[str, str], Files] = {}
    for file, data in files.items():
        state = parse_state_name(file)
        assert state is not None
        by_instant.setdefault((state.time, COMPLETES_AS.get(state.action, state.action)), {})[file] = data
    steps = tuple(_step(step, by_instant, merge_on_read) for step in meta["steps"])
    return Replay(table, timeline, archive, options, steps, active)


def _step(step: dict[str, Any], files: dict[tuple[str, str], Files], merge_on_read: bool) -> Step:
    before: Files = {}
    after: Files = {}
    for line in step["instants"]:
        time, action = line.split()[:2]
        # Compaction runs inline, after the commit's own archival.
        into = after if merge_on_read and action == "commit" else before
        into.update(files[time, action])
    return Step(step["what"], before, after, tuple(sorted(step.get("left_active_timeline", ()))))


def _from_lsm(archive: Path, merge_on_read: bool) -> Files:
    version = (archive / "_version_").read_text()
    files: Files = {}
    for entry in json.loads((archive / f"manifest_{version}").read_text())["files"]:
        for row in pq.read_table(archive / entry["fileName"]).to_pylist():
            time, action = row["instantTime"], row["action"]
            pending = "compaction" if merge_on_read and action == "commit" else action
            files[f"{time}_{row['completionTime']}.{action}"] = row["metadata"]
            files[f"{time}.{pending}.requested"] = row["plan"] or b""
            files[f"{time}.inflight" if pending == "commit" else f"{time}.{pending}.inflight"] = b""
    return files


def _from_v1(archive: Path) -> Files:
    paths = sorted(archive.glob(".commits_.archive.*"))
    entries = parse_archive([path.read_bytes() for path in paths], Scratch()).entries
    return {_name(entry): _content(entry) for entry in entries}


def _name(entry: ArchivedEntry) -> str:
    if entry.state == "COMPLETED":
        return f"{entry.instant}.{entry.action}"
    if entry.state == "INFLIGHT" and entry.action == "commit":
        return f"{entry.instant}.inflight"
    return f"{entry.instant}.{entry.action}.{entry.state.lower()}"


def _content(entry: ArchivedEntry) -> bytes:
    found = entry.metadata()
    if not found or (entry.state == "REQUESTED" and "hoodieCommitMetadata" in found):
        return b""
    ((field, record),) = found.items()
    if field in ("hoodieCommitMetadata", "hoodieReplaceCommitMetadata"):
        plain = {key: value for key, value in record.items() if key != "version"}
        return json.dumps(plain, indent=2).encode()
    schema = json.loads(entry._schema)
    (kind,) = (f["type"][1] for f in schema["fields"] if f["name"] == field)
    sink = io.BytesIO()
    fastavro.writer(sink, fastavro.parse_schema(kind), [record])
    return sink.getvalue()
