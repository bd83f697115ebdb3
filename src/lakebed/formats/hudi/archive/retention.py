"""Drop the oldest archived instants, by number or by age.

Hudi keeps its archive forever. A dropped instant is out of the table's history: a mark beside the archive says up to
which time, and a read that begins before it raises an error instead of answering with what is left. Neither the active
timeline nor any data file is touched.

A dropped replace commit would no longer hide the files that it replaced. While such files are still there, the commit
and everything newer stays.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.archive.options import ARCHIVAL_BATCH, RETAIN_INSTANTS, RETAIN_TIME
from lakebed.formats.hudi.archive.write_lsm import opened, publish
from lakebed.formats.hudi.archive.write_v1 import archive_files, archive_name, next_number, put_archive
from lakebed.formats.hudi.codec.archive_v1 import parse_archive, record_entries
from lakebed.formats.hudi.codec.log import BlockKind, HeaderKey, parse_log
from lakebed.formats.hudi.codec.log_write import record_content, write_block
from lakebed.formats.hudi.codec.lsm import LsmFile, lsm_name, lsm_writer, read_instants, read_rows
from lakebed.formats.hudi.commit.exclusive import StillHeld
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import INSTANT_FORMAT
from lakebed.formats.hudi.timeline.archive_manifest import load_history
from lakebed.formats.hudi.timeline.archived import DROPPED, ArchivedTimeline
from lakebed.kernel import clock
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options
from lakebed.kernel.scratch import Scratch
from lakebed.model.instant import Instant
from lakebed.model.upkeep import Blocker


@dataclass(frozen=True, slots=True)
class Retention:
    """What a retention drops. `files` are the paths that are removed or rewritten.

    `border` is the greatest requested time that is dropped; `order` is the same border as ranges count, by completion
    time from table version 8 on. All are empty when nothing is dropped.
    """

    dropped: tuple[Instant, ...] = ()
    files: tuple[str, ...] = ()
    border: str = ""
    order: str = ""
    blockers: tuple[Blocker, ...] = ()


def plan_retention(
    store: Store, config: TableConfig, options: Options, archived: ArchivedTimeline, scratch: Scratch, now: float
) -> Retention:
    """What the options drop at the time `now`, in seconds since 1970. Without such options nothing is dropped, and
    nothing is read."""
    most, age = options[RETAIN_INSTANTS], options[RETAIN_TIME]
    if most is None and age is None:
        return Retention()
    instants = sorted(archived.instants(), key=lambda instant: (instant.time, instant.action))
    border = _border_by_count(instants, most)
    if age is not None:
        zone = datetime.UTC if config.timezone == "UTC" else None
        moment = clock.earlier(datetime.datetime.fromtimestamp(now, zone).replace(tzinfo=None), milliseconds=age)
        since = moment.strftime(INSTANT_FORMAT)[:17]
        border = max([border, *(i.time for i in instants if i.time < since)])
    border, blockers = _spare_hiding(store, archived, instants, border)
    dropped = tuple(instant for instant in instants if instant.time <= border)
    if not dropped:
        return Retention(blockers=tuple(blockers))
    order = max((i.completed or i.time) if config.completion_times else i.time for i in dropped)
    files = tuple(_touched(store, config, border, scratch))
    return Retention(dropped, files, border, order, tuple(blockers))


def apply_retention(
    store: Store, config: TableConfig, options: Options, plan: Retention, scratch: Scratch, held: StillHeld
) -> None:
    """Mark the instants as out of history, then drop them. Run it again after a crash and it resumes."""
    if not plan.border:
        return
    held()
    store.write(DROPPED, json.dumps({"time": plan.border, "order": plan.order}).encode())
    if config.layout < 2:
        _drop_v1(store, config, plan.border, options[ARCHIVAL_BATCH], scratch, held)
    else:
        _drop_lsm(store, config.archive_folders[0], plan.border, held)


def _border_by_count(instants: Sequence[Instant], most: int | None) -> str:
    """The greatest time to drop so that at least `most` instants stay. Instants of one time stay or go together."""
    if most is None or len(instants) <= most:
        return ""
    first = instants[-most].time if most else "~"
    return max((instant.time for instant in instants if instant.time < first), default="")


def _spare_hiding(
    store: Store, archived: ArchivedTimeline, instants: Sequence[Instant], border: str
) -> tuple[str, list[Blocker]]:
    """The border, moved before the first replace commit whose replaced files are still there."""
    replacing = [i for i in instants if i.time <= border and i.action == "replacecommit"]
    if not replacing:
        return border, []
    times = {instant.time for instant in replacing}
    for commit in archived.commits("", ""):
        if commit.time not in times or not any(commit.commit.replaced.values()):
            continue
        for partition, ids in commit.commit.replaced.items():
            names = [info.name.removeprefix(".") for info in store.list(partition).files]
            if any(name.startswith(f"{file_id}_") for file_id in ids for name in names):
                blocker = Blocker(
                    commit.time,
                    f"replace commit {commit.time} hides files that no clean has removed",
                    "Run a clean, so that the files it replaced are removed (Hudi: call run_clean)",
                )
                return max((i.time for i in instants if i.time < commit.time), default=""), [blocker]
    return border, []


def _touched(store: Store, config: TableConfig, border: str, scratch: Scratch) -> Iterator[str]:
    """The paths of archive files that hold an instant up to the border."""
    if config.layout < 2:
        files = [info for folder in config.archive_folders for info in archive_files(store, folder)]
        with store.fetching(files):
            for info in files:
                if any(entry.instant <= border for entry in parse_archive([store.read(info.path)], scratch).entries):
                    yield info.path
        return
    folder = config.archive_folders[0]
    history = load_history(store, folder).files
    for file, times in zip(history, _all_times(store, folder, history), strict=True):
        if min(times, default="~") <= border:
            yield f"{folder}/{file.name}"


def _all_times(store: Store, folder: str, files: Sequence[LsmFile]) -> Sequence[list[str]]:
    """The instants of each file."""

    def times(file: LsmFile) -> list[str]:
        with opened(store, folder, file) as source:
            instants: list[str] = read_instants(source)["instantTime"].to_pylist()
        return instants

    return store.together(times, files)


def _drop_v1(store: Store, config: TableConfig, border: str, batch: int, scratch: Scratch, held: StillHeld) -> None:
    """Rewrite file by file: the records to keep go into a file of their own, and only then the old file is removed."""
    for folder in config.archive_folders:
        for info in archive_files(store, folder):
            blocks: list[bytes] = []
            drops_records = False
            for block in parse_log(store.read(info.path)).blocks:
                if block.kind is not BlockKind.AVRO_DATA:
                    continue
                entries = list(record_entries(block, scratch))
                stay = [record for instant, record in entries if instant > border]
                drops_records |= len(stay) < len(entries)
                for at in range(0, len(stay), batch):
                    content = record_content(stay[at : at + batch])
                    blocks.append(write_block(BlockKind.AVRO_DATA, {HeaderKey.SCHEMA: block.schema}, content))
            if not drops_records:
                continue
            held()
            if blocks:
                number = next_number(store, folder)
                put_archive(store, f"{folder}/{archive_name(number)}", b"".join(blocks))
            store.delete(info.path)


def _drop_lsm(store: Store, folder: str, border: str, held: StillHeld) -> None:
    """Publish a new manifest without the files whose instants all go; files that hold some to keep are rewritten."""
    history = load_history(store, folder)
    stay: list[LsmFile] = []
    for file, times in zip(history.files, _all_times(store, folder, history.files), strict=True):
        kept = [time for time in times if time > border]
        if len(kept) == len(times):
            stay.append(file)
        elif kept:
            stay.append(_newer_part(store, folder, file, border, (min(kept), max(kept))))
    if len(stay) != len(history.files) or {f.name for f in stay} != {f.name for f in history.files}:
        publish(store, folder, history, stay, held)  # a later clean-up removes the files that it no longer lists


def _newer_part(store: Store, folder: str, file: LsmFile, border: str, span: tuple[str, str]) -> LsmFile:
    """A new file with the rows after the border, whose least and greatest times are `span`."""
    first, last = span
    name = lsm_name(first, last, file.level)
    with (
        opened(store, folder, file) as source,
        store.open_output(f"{folder}/{name}") as sink,
        lsm_writer(sink) as writer,
    ):
        for batch in read_rows(source):
            newer = batch.filter(pc.greater(batch["instantTime"], pa.scalar(border)))
            if newer.num_rows:
                writer.write_batch(newer.cast(writer.schema))
    return LsmFile(name, store.size(f"{folder}/{name}"), first, last, file.level)
