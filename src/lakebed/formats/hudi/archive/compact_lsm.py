"""Keep the number of archive files of layout 2 small: merge full levels, and remove files that no manifest lists.

Rules: Hudi's `LSMTimelineWriter.compactAndClean`. When a level has `hoodie.timeline.compaction.batch.size` files, its
oldest ones are merged into one file of the next level, up to 1 GiB. That may fill the next level, and so on. Afterwards
the newest manifests stay for readers that are still at work: three, and one more per level that was merged. Files above
the limit are skipped here, while Hudi's compaction stops at them for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pyarrow.compute as pc

from lakebed.errors import CorruptError
from lakebed.formats.hudi.archive.lock import LEASES
from lakebed.formats.hudi.archive.write_lsm import opened, publish
from lakebed.formats.hudi.codec.lsm import (
    MANIFEST_PREFIX,
    LsmFile,
    lsm_name,
    lsm_writer,
    manifest_version,
    parse_manifest,
    parse_name,
    read_rows,
)
from lakebed.formats.hudi.commit.exclusive import StillHeld
from lakebed.formats.hudi.timeline.archive_manifest import History
from lakebed.kernel.files import FileInfo, Store
from lakebed.kernel.files.age import certain_now, older_than

LIMIT = 1 << 30
"""The most bytes that one merge takes."""
_MANIFESTS_KEPT = 3
_LEAST = 2
_STRAY_SECONDS = 3600


def compact(
    store: Store, folder: str, history: History, batch: int, held: StillHeld, limit: int = LIMIT
) -> tuple[History, int]:
    """Merge level after level while they are full; the history afterwards, and how many levels were merged."""
    level = 0
    while chosen := candidates(history.files, level, batch, limit):
        merged = merge(store, folder, chosen, level + 1, held)
        gone = {file.name for file in chosen}
        rest = [file for file in history.files if file.name not in gone and file.name != merged.name]
        history = publish(store, folder, history, [*rest, merged], held)
        level += 1
    return history, level


def candidates(files: Sequence[LsmFile], level: int, batch: int, limit: int = LIMIT) -> list[LsmFile]:
    """The oldest files of a full level that together stay within the limit; none when the level is not full."""
    small = sorted((f for f in files if f.level == level and f.length <= limit), key=lambda f: (f.first, f.last))
    if len(small) < batch:
        return []
    chosen: list[LsmFile] = []
    size = 0
    for file in small[:batch]:
        if chosen and size + max(file.length, 0) > limit:
            break
        chosen.append(file)
        size += max(file.length, 0)
    return chosen if len(chosen) >= _LEAST else []


def merge(store: Store, folder: str, files: Sequence[LsmFile], level: int, held: StillHeld) -> LsmFile:
    """Write one file with the rows of all, in their order. No manifest lists it yet; one that a crash left is replaced.

    Its name gives the least and the greatest instant that it really holds, unlike names that an upgrade made.
    """
    held()
    lows, highs = zip(*store.together(lambda file: _range(store, folder, file), files), strict=True)
    first, last = min(lows), max(highs)
    path = f"{folder}/{lsm_name(first, last, level)}"
    known = [FileInfo(f"{folder}/{file.name}", file.length) for file in files if file.length > 0]
    with store.fetching(known), store.open_output(path) as sink, lsm_writer(sink) as writer:
        for file in files:
            with opened(store, folder, file) as source:
                for batch in read_rows(source):
                    writer.write_batch(batch.select(writer.schema.names).cast(writer.schema))
    return LsmFile(lsm_name(first, last, level), store.size(path), first, last, level)


def clean_up(store: Store, folder: str, levels: int, held: StillHeld) -> list[str]:
    """Remove old manifests, and data files that no remaining manifest lists; the paths that were removed.

    A file that no manifest lists at all was left by a crash, or an archiver that the lock did not keep out is about to
    publish it. It is removed once it is an hour old by the store's clock.
    """
    names = [info.name for info in store.list(folder).files]
    versions = sorted((n for name in names if (n := manifest_version(name)) is not None), reverse=True)
    keep, drop = versions[: _MANIFESTS_KEPT + levels], versions[_MANIFESTS_KEPT + levels :]
    if not drop:
        return []
    listed, formerly_listed = _listed(store, folder, keep), _listed(store, folder, drop)
    gone = [f"{folder}/{MANIFEST_PREFIX}{version}" for version in drop]
    unlisted = [name for name in names if parse_name(name) is not None and name not in listed]
    gone += [f"{folder}/{name}" for name in unlisted if name in formerly_listed]
    strays = [f"{folder}/{name}" for name in unlisted if name not in formerly_listed]
    if strays:
        gone += older_than(store, strays, certain_now(store, LEASES) - _STRAY_SECONDS)
    held()
    store.delete_many(gone)
    return gone


def _listed(store: Store, folder: str, versions: Sequence[int]) -> set[str]:
    """The data files that these manifests list; a torn manifest lists none."""

    def names(version: int) -> set[str]:
        with suppress(CorruptError, FileNotFoundError):
            return {file.name for file in parse_manifest(store.read(f"{folder}/{MANIFEST_PREFIX}{version}"))}
        return set()

    return set[str]().union(*store.together(names, versions))


def _range(store: Store, folder: str, file: LsmFile) -> tuple[str, str]:
    with opened(store, folder, file) as source:
        times = [pc.min_max(batch["instantTime"]).as_py() for batch in read_rows(source)]
    bounds = [(batch["min"], batch["max"]) for batch in times if batch["min"] is not None]
    return (min(low for low, _ in bounds), max(high for _, high in bounds)) if bounds else (file.first, file.last)
