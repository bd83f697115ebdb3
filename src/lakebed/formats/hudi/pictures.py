"""The pictures of a table's report: sizes of files, partitions, ages of logs, the timeline, and the growth.

Times are those of instants: clock times in the table's time zone, which are drawn as they are written.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from lakebed.formats.hudi.archive.state_files import ActiveInstant
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import clock_time, parse_base_name, parse_log_name
from lakebed.formats.hudi.read.split import HudiSplit, SlicePaths
from lakebed.kernel import clock
from lakebed.model.pictures import Mark, Picture, State, Unit, by_age, file_sizes, growth, largest, timeline
from lakebed.model.upkeep import Blocker

_EPOCH = datetime.datetime(1970, 1, 1)


def pictures_of_files(
    splits: Iterable[HudiSplit], config: TableConfig, target: int, least: int
) -> Iterator[Picture | None]:
    """The pictures of the newest snapshot's file slices. Base files of fewer than `least` bytes are small."""
    slices = [part for split in splits for part in split.slices]
    bases = [size for part in slices if (size := part.base_size) is not None]
    yield file_sizes(Counter(max(size, 1).bit_length() - 1 for size in bases), target, least, "base files")
    sizes, files = Counter[str](), Counter[str]()
    for part in slices:
        place = part.partition or "the table"
        sizes[place] += sum(part.sizes)
        files[place] += len(part.sizes)
    yield largest("Partitions by size", sizes, files, "partitions")
    now = _milliseconds(clock.moment(datetime.UTC if config.timezone == "UTC" else None))
    logs = [(now - time, 1) for part in slices for time in _log_times(part)]
    note = "each read merges them into the base files; a compaction ends that"
    yield by_age("Log files by age", note, Unit.FILES, logs)
    written = sorted((time, size) for part in slices for time, size in _base_times(part))
    points, total = [], 0
    for time, size in written:
        total += size
        points.append((time, total))
    last = dict(points)
    yield growth("Bytes of the newest snapshot", "base files, by the time they were written", Unit.BYTES, last.items())


def pictures_of_timeline(instants: Iterable[ActiveInstant], blockers: Sequence[Blocker]) -> Picture | None:
    """The active timeline, with what holds up its archival."""
    held = {blocker.instant: blocker.reason for blocker in blockers if not blocker.remedy.startswith("Nothing to do")}
    marks = []
    for instant in instants:
        time = clock_time(instant.time)
        if time is None:
            continue
        label, state = f"{instant.kind} {instant.time}", State.DONE
        if not instant.done:
            label, state = f"{label} ({instant.last.state})", State.PENDING
        elif instant.action == "savepoint":
            state = State.KEPT
        elif instant.time in held:
            label, state = f"{label}: {held[instant.time]}", State.HELD
        marks.append(Mark(_milliseconds(time), instant.action, state, label))
    return timeline("The active timeline", marks, [*dict.fromkeys(held.values())])


def _log_times(part: SlicePaths) -> Iterator[int]:
    for path in part.logs:
        log = parse_log_name(path.rpartition("/")[2])
        time = clock_time(log[1].instant) if log else None
        if time is not None:
            yield _milliseconds(time)


def _base_times(part: SlicePaths) -> Iterator[tuple[int, int]]:
    base = parse_base_name(part.base.rpartition("/")[2]) if part.base else None
    time = clock_time(base[1].instant) if base else None
    if time is not None and part.base_size is not None:
        yield _milliseconds(time), part.base_size


def _milliseconds(time: datetime.datetime) -> int:
    return int((time - _EPOCH).total_seconds() * 1000)
