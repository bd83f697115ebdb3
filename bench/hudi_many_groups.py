"""Planning alone: a Hudi table of very many file groups, with real timeline files and empty data files.

    python -m bench.hudi_many_groups TABLE_FOLDER        makes it where it is not there, and prints figures as JSON

Merge-on-read, table version 6: 100,000 file groups in 100 partitions, base files by the first 500 of 1,000 delta
commits, no, one or two log files per group by the others.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lakebed
from lakebed.kernel.files import Listing
from lakebed.kernel.files.local import LocalStore

GROUPS, PARTITIONS, INSTANTS = 100_000, 100, 1_000
_PROPERTIES = {
    "hoodie.table.name": "plan",
    "hoodie.table.version": "6",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.timeline.layout.version": "1",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.precombine.field": "ts",
    "hoodie.table.partition.fields": "part",
    "hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
}
_FIELDS = [{"name": n, "type": ["null", k], "default": None} for n, k in (("id", "string"), ("ts", "long"))]


def main() -> None:
    """Plans a snapshot of everything, and the last ten commits."""
    folder = Path(sys.argv[1])
    note = folder.with_name(f"{folder.name}.after")
    if not note.exists():
        note.write_text(many_groups(folder))
    after, listed, list_folder = note.read_text(), list[str](), LocalStore.list

    def counting(store: LocalStore, path: str = "") -> Listing:
        listed.append(path)
        return list_folder(store, path)

    LocalStore.list = counting  # type: ignore[method-assign]  # counts the listings of a plan
    works: dict[str, Callable[[], Any]] = {
        "plan a snapshot of 100,000 file groups and 1,000 instants": lambda: lakebed.open(folder).plan_read(),
        "plan the last ten of its commits": lambda: lakebed.open(folder).plan_changes(after=after),
    }
    for what, work in works.items():
        listed.clear()
        began, used = time.perf_counter(), time.process_time()
        splits = len(work().splits)
        seconds, processor = time.perf_counter() - began, time.process_time() - used
        partitions = [path for path in listed if path and path[0] != "."]
        assert len(set(partitions)) == len(partitions), "no partition is listed twice"
        figures = {"seconds": round(seconds, 3), "cpu_seconds": round(processor, 3), "listings": len(listed)}
        print(json.dumps({"what": what, "splits": splits, **figures}), flush=True)


def many_groups(table: Path) -> str:
    """Writes the table; gives the instant before its last ten."""
    (table / ".hoodie").mkdir(parents=True)
    lines = [f"{key}={value}\n" for key, value in _PROPERTIES.items()]
    (table / ".hoodie" / "hoodie.properties").write_text("".join(lines))
    for number in range(PARTITIONS):
        folder = table / f"p{number:03d}"
        folder.mkdir()
        (folder / ".hoodie_partition_metadata").write_text("partitionDepth=1\n")
    written: list[dict[str, list[dict[str, Any]]]] = [{} for _ in range(INSTANTS)]
    for group in range(GROUPS):
        first = group * INSTANTS // GROUPS // 2
        file_id, partition = f"{group:08d}-aaaa-bbbb-cccc-0", f"p{group % PARTITIONS:03d}"
        _write(table, written[first], partition, file_id, f"{file_id}_0-1-1_{_time(first)}.parquet")
        for number in range(group % 2 + (group % 3 == 0)):
            commit = INSTANTS // 2 + (group * 7 + number * 13) % (INSTANTS // 2)
            _write(table, written[commit], partition, file_id, f".{file_id}_{_time(first)}.log.{number + 1}_0-1-1")
    schema = json.dumps({"type": "record", "name": "row", "fields": _FIELDS})
    for number, stats in enumerate(written):
        state = table / ".hoodie" / f"{_time(number)}.deltacommit"
        state.with_name(f"{state.name}.requested").touch()
        state.with_name(f"{state.name}.inflight").touch()
        found = {"partitionToWriteStats": stats, "operationType": "UPSERT", "extraMetadata": {"schema": schema}}
        state.write_text(json.dumps(found))
    return _time(INSTANTS - 11)


def _time(number: int) -> str:
    return f"20260101{number // 3600:02d}{number // 60 % 60:02d}{number % 60:02d}000"


def _write(table: Path, stats: dict[str, list[dict[str, Any]]], partition: str, file_id: str, name: str) -> None:
    (table / partition / name).touch()
    logs = [name] if name.startswith(".") else None
    stat = {"fileId": file_id, "path": f"{partition}/{name}", "prevCommit": "null", "numWrites": 1, "logFiles": logs}
    stats.setdefault(partition, []).append(stat)


if __name__ == "__main__":
    main()
