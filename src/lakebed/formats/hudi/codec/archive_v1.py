"""Read the archived timeline of table versions up to 6: files `.commits_.archive.<N>_1-0-1` in the log file format.

Each file is a run of AVRO_DATA blocks whose records are `HoodieArchivedMetaEntry`, one per state file of an instant:
requested, inflight, completed. Releases add and drop fields, so a block is read with the schema in its own header. The
records are in no order of time. After a run that died, an instant can stand in the archive twice.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakebed.formats.hudi.codec.avro import PIECE_BYTES, decode_blocks, record_run
from lakebed.formats.hudi.codec.log import BlockKind, CorruptRange, LogBlock, parse_log
from lakebed.formats.hudi.codec.schema import writer_schema
from lakebed.kernel.avro.records import datum, parsed_schema
from lakebed.kernel.decoding import decoding
from lakebed.kernel.scratch import Scratch


@dataclass(frozen=True, slots=True)
class ArchivedEntry:
    """One archived state file.

    `instant` is the requested time, `state` is REQUESTED, INFLIGHT or COMPLETED. `state_transition_time` is when the
    state was reached: the file's modification time in 17 digits, "" where the release did not write it.
    """

    instant: str
    action: str
    state: str
    state_transition_time: str
    _schema: str = field(repr=False)
    _record: bytes = field(repr=False)

    def metadata(self) -> Mapping[str, Any]:
        """The content of the state file, decoded now.

        These are the payload fields that are not null, by their names in the schema (`hoodieCommitMetadata`,
        `hoodieCleanMetadata`, `hoodieCompactionPlan`, ...). Most requested states have none. Raises CorruptError.
        """
        with decoding("an archived instant cannot be decoded", instant=self.instant):
            record = datum(io.BytesIO(self._record), parsed_schema(self._schema))
        return {name: value for name, value in record.items() if isinstance(value, dict)}


@dataclass(frozen=True, slots=True)
class ArchiveScan:
    """The content of archive files: entries in the order of time, each state once, and the byte ranges that are not
    blocks."""

    entries: tuple[ArchivedEntry, ...]
    corrupt: tuple[CorruptRange, ...]


def parse_archive(files: Iterable[bytes | memoryview], scratch: Scratch) -> ArchiveScan:
    """All entries of archive files, ordered by instant and state. Their metadata is not decoded.

    A state that is in the files twice is given once, as it was written last. Raises CorruptError for a block whose
    records cannot be decoded.
    """
    entries: dict[tuple[str, int, str], ArchivedEntry] = {}
    corrupt: list[CorruptRange] = []

    def blocks() -> Iterator[LogBlock]:
        for data in files:
            scan = parse_log(data)
            corrupt.extend(scan.corrupt)
            yield from (block for block in scan.blocks if block.kind is BlockKind.AVRO_DATA)

    for group in _grouped(blocks()):
        for entry in _entries(group, scratch):
            entries[(entry.instant, _STATES.get(entry.state, len(_STATES)), entry.action)] = entry
    return ArchiveScan(tuple(entries[key] for key in sorted(entries)), tuple(corrupt))


def record_entries(block: LogBlock, scratch: Scratch) -> Iterator[tuple[str, bytes]]:
    """(requested time, Avro datum) of each record of a block, in order."""
    for entry in _entries([block], scratch):
        yield entry.instant, entry._record


def _grouped(blocks: Iterable[LogBlock]) -> Iterator[list[LogBlock]]:
    """Groups of neighbouring blocks of one schema, up to a number of bytes. A group is decoded at once, since a schema
    of many thousand characters takes longer to prepare than its few records to decode."""
    group: list[LogBlock] = []
    size = 0
    for block in blocks:
        if group and (block.schema != group[0].schema or size + len(block.content) > PIECE_BYTES):
            yield group
            group, size = [], 0
        group.append(block)
        size += len(block.content)
    if group:
        yield group


_STATES = {"REQUESTED": 0, "INFLIGHT": 1, "COMPLETED": 2}
_KEYS = ("commitTime", "actionType", "actionState", "stateTransitionTime")
_LENGTH = struct.Struct(">i")


def _entries(blocks: list[LogBlock], scratch: Scratch) -> Iterator[ArchivedEntry]:
    """The records of blocks of one schema, in order."""
    schema = blocks[0].schema
    written = {column.name for column in writer_schema(schema).columns}
    table = decode_blocks(blocks, [name for name in _KEYS if name in written], scratch)
    columns = [table[name].to_pylist() if name in table.column_names else [None] * table.num_rows for name in _KEYS]
    # A loop over records is fine: an archive has a few per commit, not one per row.
    records = (record for block in blocks for record in _datums(block))
    for instant, action, state, transition, record in zip(*columns, records, strict=True):
        # Releases before 0.6 left the state out: they archived only completed instants.
        yield ArchivedEntry(instant or "", action or "", state or "COMPLETED", transition or "", schema, record)


def _datums(block: LogBlock) -> Iterator[bytes]:
    count, body = record_run(block)
    place = 0
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(body, place)
        place += _LENGTH.size
        yield bytes(body[place : place + length])
        place += length
