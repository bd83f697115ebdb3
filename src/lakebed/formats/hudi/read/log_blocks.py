"""Which blocks of a file slice's log files count, in merge order.

Rules: Hudi's `BaseHoodieLogRecordReader`. Blocks count when their instant is committed and inside the reader's bound,
unless a rollback block further on takes them back or a log compaction replaced them. The block of a log compaction
stands where the last of the blocks that it replaced stood. A block of an instant beyond the bound is skipped, and what
follows it is still read.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from lakebed.errors import CorruptBlocksWarning, CorruptError, UnsupportedError
from lakebed.formats.hudi.codec.log import BlockKind, CorruptRange, LogBlock, parse_log
from lakebed.formats.hudi.read.missing_files import expecting
from lakebed.formats.hudi.timeline.active import Blocks
from lakebed.kernel.files import Store
from lakebed.redaction import redacting_logger

_LOG = redacting_logger("lakebed.hudi")


def read_blocks(
    store: Store,
    paths: Sequence[str],
    counting: Blocks,
    instant: str = "",
    originals: bool = False,
    sizes: Sequence[int] = (),
) -> list[LogBlock]:
    """Read log files and choose the blocks that count, only those of one `instant` where it is given. `sizes` are the
    bytes that the files are known to have, in their order; with none nothing is known.

    With `originals` the blocks that a log compaction replaced count in its place, where all are there: they tell which
    instant deleted a key.

    Torn bytes, which a dying writer leaves, are skipped and counted in a CorruptBlocksWarning per file. Raises
    CorruptError for a block that was whole once and is damaged now, and for a file that has fewer bytes than is known,
    since rows are lost; DataCleanedError for a file that is gone.
    """
    blocks: list[LogBlock] = []
    known = dict(zip(paths, sizes, strict=False))  # a base file's size follows
    for path in paths:
        try:
            with expecting(store, path):
                data = store.read(path)
            if len(data) < known.get(path, 0):
                raise CorruptError(
                    "a log file was cut short",
                    why=f"it has {len(data)} bytes, and had {known[path]}",
                    todo="Restore the file from a copy; its rows are lost otherwise",
                )
            scan = parse_log(data)
        except (CorruptError, UnsupportedError) as error:
            error.table, error.file = store.location, path
            raise
        if scan.corrupt:
            _report(scan.corrupt, store.location, path)
        elif not scan.blocks:
            _report_empty(len(data), store.location, path)
        blocks += scan.blocks
    if instant:
        blocks = [block for block in blocks if block.is_rollback or block.instant_time == instant]
    return _that_count(blocks, counting, originals)


def _report(corrupt: Sequence[CorruptRange], table: str, file: str) -> None:
    """Raise CorruptError for a damaged block; warn of torn bytes once per file, and log each place."""
    for bad in corrupt:
        if bad.framed:
            raise CorruptError(
                f"a log block at offset {bad.offset} is damaged",
                table=table,
                file=file,
                why=bad.reason,
                todo="Restore the file from a copy; its rows are lost otherwise",
            )
        _LOG.warning("%s/%s: %d bytes at offset %d: %s", table, file, bad.length, bad.offset, bad.reason)
    size = sum(bad.length for bad in corrupt)
    what = f"skipped {size} torn bytes in {len(corrupt)} places of {file}, from offset {corrupt[0].offset} on"
    warnings.warn(CorruptBlocksWarning(what, table=table, file=file, ranges=len(corrupt), size=size), stacklevel=2)


def _report_empty(size: int, table: str, file: str) -> None:
    """Warn of a log file without a block: its writer died before the first was whole, or a copy lost its content."""
    what = f"skipped {file}, which has {size} bytes and no block"
    warnings.warn(CorruptBlocksWarning(what, table=table, file=file, ranges=0, size=size), stacklevel=2)


def _that_count(blocks: Sequence[LogBlock], counting: Blocks, originals: bool) -> list[LogBlock]:
    last_rollback: dict[str, int] = {}
    for place, block in enumerate(blocks):
        if block.is_rollback:
            last_rollback[block.target_instant_time] = place
    alive = [
        (place, block)
        for place, block in enumerate(blocks)
        if not block.is_rollback
        and block.kind is not BlockKind.CDC_DATA
        and counting.counts(block.instant_time)
        and last_rollback.get(block.instant_time, -1) < place
    ]
    if originals:
        alive = _unfolded(alive)
    replaced = {instant for _, block in alive for instant in block.compacted_instants}
    if not replaced:
        return [block for _, block in alive]
    last_block = {block.instant_time: place for place, block in enumerate(blocks)}
    placed = []
    for place, block in alive:
        if block.instant_time in replaced:
            continue
        compacted = [last_block[instant] for instant in block.compacted_instants if instant in last_block]
        placed.append((max(compacted) if compacted else place, place, block))
    return [block for _, _, block in sorted(placed, key=lambda entry: entry[:2])]


def _unfolded(alive: list[tuple[int, LogBlock]]) -> list[tuple[int, LogBlock]]:
    """The blocks without those of log compactions whose originals are all there."""
    merged = {block.instant_time for _, block in alive if block.compacted_instants}
    instants = {block.instant_time for _, block in alive} - merged
    return [
        entry
        for entry in alive
        if not entry[1].compacted_instants or {*entry[1].compacted_instants} - merged - instants
    ]
