"""A metadata table that is certain: it has all that the table's timeline completed.

Rules: Hudi's `HoodieBackedTableMetadata` and `HoodieMetadataPayload`. A part of it (`files`, `column_stats`, ...) is a
folder of file groups, each with a base file of sorted keys and log files of later records. A log block counts when its
delta commit did and the table's own timeline completed the same instant: the metadata table is written first, so it
can be ahead of a write that failed.

It is used only where nothing can be missing: the table names the part as maintained, every completed instant of the
table is in the metadata table, and each block is of a kind that Hudi writes there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.hudi.codec.hfile import HFile, hfile_of, open_hfile
from lakebed.formats.hudi.codec.log import BlockKind, LogBlock, parse_log
from lakebed.formats.hudi.codec.properties import parse_properties
from lakebed.formats.hudi.config import PROPERTIES, TableConfig, config_from
from lakebed.formats.hudi.layout import HOODIE, file_path, parse_state_name
from lakebed.formats.hudi.metadata_table.named import INFLIGHT, PARTITIONS, REBUILD, partitions_of
from lakebed.formats.hudi.slices import FileSlice, WrittenFiles, file_groups, slice_of
from lakebed.formats.hudi.timeline.active import Entry, Timeline, timeline_from, view_of
from lakebed.kernel.files import Listing, Store

FOLDER = f"{HOODIE}/metadata"
_BOOTSTRAP = "00000000000000"
_DIGITS = 17
"""Those of an instant of the table; in table version 6 the instants of the metadata table alone have more."""
_EMPTY_DELETES = b"\x00\x00\x00\x03\x00\x00\x00\x01\x00"
"""The delete block that begins each file group: no deletes."""

UNUSABLE = (FileNotFoundError, CorruptError, UnsupportedError)
"""What reading a part of a metadata table can raise where it cannot be relied on."""


class Image(NamedTuple):
    """Records of one file or log block, sorted by key. `schema` is the Avro schema of the values; `deletes` is the
    content of a delete block where the records are those: then there is no `hfile`."""

    hfile: HFile | None
    schema: str
    deletes: bytes = b""


@dataclass(frozen=True)
class MetadataTable:
    """The metadata table beside one state of the table's own `timeline`; `theirs` is its own timeline."""

    store: Store
    config: TableConfig
    timeline: Timeline
    theirs: Timeline
    _listed: dict[str, Listing] = field(default_factory=dict)

    @classmethod
    def opened(
        cls, store: Store, config: TableConfig, timeline: Timeline, ahead: Collection[str] = ()
    ) -> MetadataTable | None:
        """The metadata table, None where it is not certain that it is up to date. The folders of the parts `ahead` are
        listed together with its timeline."""
        try:
            own = config_from(parse_properties(store.read(f"{FOLDER}/{PROPERTIES}")), table=store.location)
            parts = [part for part in ahead if maintains(config, part)]
            instants, *folders = store.list_many([f"{FOLDER}/{own.timeline_folder}", *map(_folder, parts)])
            theirs = timeline_from(instants, own)
        except UNUSABLE:
            return None
        if not _is_complete(timeline, theirs):
            return None
        return cls(store, config, timeline, theirs, dict(zip(parts, folders, strict=True)))

    def slices(self, part: str) -> list[FileSlice]:
        """The newest slice of each file group of a part, by file id.

        UnsupportedError where a log file that may belong to it is of an instant that the metadata table's timeline no
        longer has.
        """
        if part not in self._listed:
            self._listed[part] = self.store.list(_folder(part))
        view, slices = view_of(self.theirs), []
        for _, group in sorted(file_groups(self._listed[part].files).items()):
            file_slice = slice_of(part, group, view, WrittenFiles({}, {}, frozenset()))
            base = file_slice.base.instant if file_slice is not None and file_slice.base is not None else ""
            if any(log.instant not in self.theirs.by_time and log.instant > base for log in group.logs):
                raise UnsupportedError(
                    "a log file of the metadata table is of an instant that is not known", todo=REBUILD
                )
            if file_slice is not None:
                slices.append(file_slice)
        return slices

    def images(self, file_slice: FileSlice, whole: bool = False) -> Iterator[Image]:
        """The records of a slice, oldest first. UnsupportedError for blocks of a kind that is not read. With `whole` it
        is a slice that every write adds to, and CorruptError is raised where a write has no block in it.

        A base file is read in pieces, as its keys are asked for.
        """
        folder = _folder(file_slice.partition)
        if file_slice.base is not None:
            hfile = self._base(file_path(folder, file_slice.base.name), file_slice.base.size)
            yield Image(hfile, hfile.info["schema"])
        logs = self.store.read_many([file_path(folder, log.name) for log in file_slice.logs])
        completed = {entry.time for entry in self.timeline.entries if entry.done}
        blocks: list[LogBlock] = []
        for data in logs:
            scan = parse_log(data)
            if scan.corrupt:
                raise CorruptError("a log file of the metadata table is damaged", todo=REBUILD)
            for block in scan.blocks:
                if block.is_rollback:
                    blocks = [other for other in blocks if other.instant_time != block.target_instant_time]
                elif all(self._counts(time, completed) for time in (block.instant_time, *block.compacted_instants)):
                    blocks.append(block)
        if whole:
            self._check_whole(file_slice, blocks)
        for block in _written(blocks):
            yield from _image(block)

    def _check_whole(self, file_slice: FileSlice, blocks: Sequence[LogBlock]) -> None:
        """CorruptError where a slice has no block of a write that the table completed after the slice began."""
        base = file_slice.base.instant if file_slice.base is not None else ""
        there = {time for block in blocks for time in (block.instant_time, *block.compacted_instants)}
        writes = {entry.time for entry in self.timeline.commits}
        for entry in self.theirs.commits:
            since = entry.action == "deltacommit" and self.theirs.order(entry) > base
            if since and entry.time in writes and entry.time not in there:
                raise CorruptError("the metadata table lacks files of a commit", instant=entry.time, todo=REBUILD)

    def _counts(self, instant: str, completed: Collection[str]) -> bool:
        """Whether the table completed an instant, or it is older than the table's timeline. Instants that build a part
        and those of log compactions are of the metadata table alone."""
        own = self.theirs.by_time.get(instant)
        if own is not None and is_log_compaction(own):
            return own.done
        if instant.startswith(_BOOTSTRAP) or len(instant) > _DIGITS:
            return True
        return instant in completed or instant < self.timeline.start

    def _base(self, path: str, size: int) -> HFile:
        if size <= _AT_ONCE:
            image = self.store.read(path)
            return hfile_of(image)
        return open_hfile(lambda start, length: self.store.read(path, start, length), size)


_AT_ONCE = 4 << 20
"""Base files up to so many bytes are read as a whole."""


def maintains(config: TableConfig, part: str) -> bool:
    """Whether a table says that its metadata table has a part, in a form that is read here."""
    maintained = part in partitions_of(config, PARTITIONS) and part not in partitions_of(config, INFLIGHT)
    return maintained


def _folder(part: str) -> str:
    return f"{FOLDER}/{part}"


def _is_complete(timeline: Timeline, theirs: Timeline) -> bool:
    """Whether each completed instant of the table that changed files is in the metadata table, or is older than what
    its timeline shows. From table version 8 on a rollback only takes away what was never listed."""
    known = {entry.time for entry in theirs.entries if entry.done}
    unfinished = {entry.time for entry in theirs.pending}
    shown = (entry.time for entry in theirs.commits if entry.action == "deltacommit")
    oldest = min((time for time in shown if not time.startswith(_BOOTSTRAP)), default="")
    changing = ("clean", "restore") if timeline.completion_times else ("clean", "rollback", "restore")
    instants = [entry.time for entry in timeline.entries if entry.done and (entry.writes or entry.action in changing)]
    return bool(known) and all(
        time in known or (oldest and time < oldest and time not in unfinished) for time in instants
    )


def is_log_compaction(entry: Entry) -> bool:
    """Whether an instant of a metadata table merges blocks of its logs: completed, it is a delta commit."""
    planned = parse_state_name(entry.requested.rpartition("/")[2])
    return entry.action == "logcompaction" or (planned is not None and planned.action == "logcompaction")


def _written(blocks: Sequence[LogBlock]) -> list[LogBlock]:
    """The blocks as delta commits wrote them. A log compaction leaves those that it merges where they are, and they
    say more: which of them was taken back since, and of two records of a file which came first. Its own block counts
    where one of them is gone."""
    instants = {block.instant_time for block in blocks}
    alone = {block.instant_time for block in blocks if not instants.issuperset(block.compacted_instants)}
    merged = {i for block in blocks if block.instant_time in alone for i in block.compacted_instants}
    merged |= {block.instant_time for block in blocks if block.compacted_instants} - alone
    return [block for block in blocks if block.instant_time not in merged]


def _image(block: LogBlock) -> Iterator[Image]:
    content = bytes(block.content)
    if block.kind not in (BlockKind.DELETE, BlockKind.HFILE_DATA):
        raise UnsupportedError("a block of the metadata table is of a kind that is not read", todo=REBUILD)
    if block.kind is BlockKind.HFILE_DATA:
        yield Image(hfile_of(content), block.schema)
    elif content != _EMPTY_DELETES:
        yield Image(None, "", content)
