"""Relocates a hadoop table that was moved or copied: every path in its metadata is changed to the new place.

Rules: Iceberg's `RewriteTablePathUtil` (the procedure `rewrite_table_path`). The manifest lists and manifests of all
snapshots name files by absolute path, and so do position delete files and the footers of deletion vectors. All of them
get new files beside the old ones, and the next version of the metadata names the new files. Until that version is
claimed nothing has changed. Nothing is read from or written to the old place.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pyiceberg.schema import Schema

from lakebed.errors import CommitConflictError, CommitUnknownError, LakebedError, NotWrittenError, UnsupportedError
from lakebed.formats.iceberg.catalog.hadoop import HadoopTable
from lakebed.formats.iceberg.catalog.operations import Loaded, LostRaceError, OutcomeUnknownError
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.puffin import read_footer, write_puffin
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.codec.updates import applied
from lakebed.formats.iceberg.data_files import Content, DeleteFile, Metrics
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.read.deletes import positions_by_path
from lakebed.formats.iceberg.relocate.paths import Names, as_json, rewritten, visit
from lakebed.formats.iceberg.write.file_layout import Layout
from lakebed.formats.iceberg.write.row_deletes import POSITION_DELETE_FIELDS, write_positions
from lakebed.kernel import clock
from lakebed.model.upkeep import RelocateResult

DELETED = 2
"""The status of an entry that records a removal."""
_UNKNOWN_SIZE = -1
_WAITING_BYTES = 32 << 20
"""With more bytes of new files than this, they are written before all of them are known."""
_SHOWN = 5
DATA_FILE, STATUS, PATH = 2, 0, 100
"""Field ids of manifest entries."""
_FORMAT, _ROWS, _SIZE, _CONTENT, _OFFSETS, _REFERENCED = 101, 103, 104, 134, 132, 143
_METRICS = {
    108: "column_sizes", 109: "value_counts", 110: "null_value_counts", 137: "nan_value_counts", 125: "lower_bounds",
    128: "upper_bounds",
}  # fmt: skip
_MANIFEST_PATH, _MANIFEST_LENGTH = 500, 501
_PLACES = (
    "write.data.path",
    "write.metadata.path",
    "write.folder-storage.path",
    "write.object-storage.path",
)


def relocate(table: HadoopTable, dry_run: bool) -> RelocateResult:
    """Make the folder where the table was opened its location.

    Raises UnsupportedError for a catalog's table and for a table without all of its files, CommitConflictError when
    another change was faster, CommitUnknownError when the store does not say whether the change was made. After any
    other error nothing has changed.
    """
    loaded = table.load()
    moved_from = table.moved_from
    if not moved_from:
        note = "the table lies where its metadata says: there is nothing to do"
        return RelocateResult(loaded.metadata.location, loaded.metadata.location, 0, 0, dry_run, notes=(note,))
    table.refuse_catalogs(loaded)
    files = table.files
    move = Move(Files(files.home, files.credentials, files.named, files.made_at), loaded.metadata, dry_run)
    move.check_complete()
    try:
        document = move.document(loaded)
    except Exception:
        move.remove()
        raise
    if not dry_run:
        _publish(table, loaded, document, move)
    return RelocateResult(moved_from, files.home.location, len(move.manifests), len(move.deletes), dry_run)


def _publish(table: HadoopTable, loaded: Loaded, document: Mapping[str, Any], move: Move) -> None:
    """Claim the next version. The new files are removed only when it certainly does not name them."""
    try:
        table.publish(loaded, document)
    except LostRaceError as error:
        move.remove()
        raise CommitConflictError(
            "the table was changed while it was relocated", table=table.name, why=str(error), todo="Relocate it again"
        ) from error
    except NotWrittenError:
        move.remove()
        raise
    except OutcomeUnknownError as error:
        raise CommitUnknownError(
            "the store does not say whether the table was relocated",
            table=table.name,
            why=str(error),
            todo="Relocate it again: it says so when there is nothing left to do",
        ) from error


@dataclass(slots=True)
class Move:
    """A relocation in progress: each metadata file is rewritten once.

    `manifests` has the path and length of new manifests by the old path, `deletes` the changed fields of entries by the
    old path of a delete file. `written` are the paths of all new files, `waiting` the bytes of those that are not in
    the store yet. `noted` are entries of live delete files by path, `ahead` has the bytes of metadata files that were
    read together.
    """

    files: Files
    metadata: TableMetadata
    dry_run: bool
    manifests: dict[str, tuple[str, int]] = field(default_factory=dict)
    deletes: dict[str, dict[int, Any]] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    waiting: dict[str, bytes] = field(default_factory=dict)
    noted: dict[str, Mapping[int, Any]] = field(default_factory=dict)
    ahead: Files = field(init=False)

    def __post_init__(self) -> None:
        self.ahead = self.files

    def path(self, url: str) -> str:
        """The path of a file at the new place. A file that lies elsewhere keeps its path."""
        return self.files.moved(url)

    def new_path(self, old: str, name: str) -> str:
        """The path of the file that replaces an old one: beside it, under a new name."""
        return f"{self.path(old).rpartition('/')[0]}/{name}"

    def stored(self, url: str) -> str:
        """The place to which a new file is written. Readers find it at `url`."""
        return url

    def document(self, loaded: Loaded) -> dict[str, Any]:
        """The metadata document of the new place. Writes the files that it names."""
        document = as_json(applied(self.metadata, [], clock.now_ms(), loaded.location))
        document["location"] = self.files.home.location
        self.rewrite_delete_files()
        self.place(document)
        self.write_waiting()
        return document

    def place(self, document: dict[str, Any]) -> None:
        """Give a metadata document the paths of the new place, and write the files that replace others."""
        for entry in document.get("snapshots") or ():
            snapshot = self.metadata.snapshots[int(entry["snapshot-id"])]
            if snapshot.manifest_list:
                entry["manifest-list"] = self.manifest_list(snapshot)
            else:
                entry["manifests"] = [self.manifest(path)[0] for path in snapshot.manifests]
        for key, name in (
            ("statistics", "statistics-path"),
            ("partition-statistics", "statistics-path"),
            ("metadata-log", "metadata-file"),
        ):
            for entry in document.get(key) or ():
                entry[name] = self.path(entry[name])
        properties = document.get("properties") or {}
        for key in _PLACES:
            if key in properties:
                properties[key] = self.path(properties[key])

    def entries(self, look: Callable[[dict[str, Any], Names], None], missing: list[str]) -> None:
        """Show all entries of all snapshots to `look`. Metadata files that are missing are added to `missing`."""
        manifests: set[str] = set()

        def collect(record: dict[str, Any], names: Names) -> None:
            manifests.add(record[names[_MANIFEST_PATH]])

        snapshots = self.metadata.snapshots.values()
        self.ahead = self.files.ahead((s.manifest_list, _UNKNOWN_SIZE) for s in snapshots if s.manifest_list)
        for snapshot in snapshots:
            manifests.update(snapshot.manifests)
            if snapshot.manifest_list:
                self._visit(snapshot.manifest_list, collect, missing)
        self.ahead = self.ahead.ahead((manifest, _UNKNOWN_SIZE) for manifest in sorted(manifests))
        for manifest in sorted(manifests):
            self._visit(manifest, look, missing)

    def check_complete(self) -> None:
        """UnsupportedError when files that the metadata names below the old place are not at the new one."""
        home = self.files.home.location
        existing = {f"{home}/{info.path}" for info in self.files.home.walk("")}
        missing: list[str] = []

        def look(record: dict[str, Any], names: Names) -> None:
            data = record[names[DATA_FILE]]
            path = self.path(data[names[PATH]])
            if record[names[STATUS]] != DELETED and path.startswith(f"{home}/") and path not in existing:
                missing.append(path)
            self.note_delete_file(record, names)

        self.entries(look, missing)
        if missing:
            paths = sorted(set(missing))
            raise UnsupportedError(
                "the table cannot be relocated",
                table=home,
                file=paths[0],
                why=f"{len(paths)} of its files were not copied: {', '.join(paths[:_SHOWN])}",
                todo="Copy them too, to the same places below the table's folder",
            )

    def remove(self) -> None:
        """Remove the new files, as far as the store allows; orphan-file removal cleans up any leftovers."""
        with suppress(LakebedError, OSError):
            self.files.delete_many(self.written)

    # ---- metadata files ----

    def _visit(self, url: str, look: Callable[[dict[str, Any], Names], None], missing: list[str]) -> None:
        """Show the records of a metadata file to `look`, or add the file to the missing ones."""
        try:
            data = self._read(url)
        except FileNotFoundError:
            missing.append(self.path(url))
            return
        visit(data, look, url)

    def _read(self, url: str) -> bytes:
        return self.ahead.read_immutable([(url, _UNKNOWN_SIZE)])[0]

    def manifest_list(self, snapshot: Snapshot) -> str:
        """The path of the new manifest list of a snapshot."""

        def change(record: dict[str, Any], names: Names) -> None:
            path, length = self.manifest(record[names[_MANIFEST_PATH]])
            record[names[_MANIFEST_PATH]], record[names[_MANIFEST_LENGTH]] = path, length

        data = rewritten(self._read(snapshot.manifest_list), change, snapshot.manifest_list)
        return self._put(snapshot.manifest_list, f"snap-{snapshot.snapshot_id}-0-{uuid.uuid4()}.avro", data)

    def manifest(self, url: str) -> tuple[str, int]:
        """The path and length of the new manifest for an old one."""
        if url not in self.manifests:
            data = rewritten(self._read(url), self._entry, url)
            self.manifests[url] = self._put(url, f"{uuid.uuid4()}-m0.avro", data), len(data)
        return self.manifests[url]

    def _entry(self, record: dict[str, Any], names: Names) -> None:
        data = record[names[DATA_FILE]]
        path = data[names[PATH]]
        if self.is_live_delete(record, names):
            changes = self._delete_file(path, _by_id(data, names))
        else:
            changes = {PATH: self.path(path)}
        for id, value in changes.items():
            if id in names:
                data[names[id]] = value
        if _REFERENCED in names and data[names[_REFERENCED]] is not None:
            data[names[_REFERENCED]] = self.path(data[names[_REFERENCED]])

    def _put(self, old: str, name: str, data: bytes) -> str:
        """Write a new file in place of an old one. Returns its path; a dry run writes nothing."""
        url = self.new_path(old, name)
        if not self.dry_run:
            self.written.append(self.stored(url))
            self.waiting[self.stored(url)] = data
            if sum(map(len, self.waiting.values())) > _WAITING_BYTES:
                self.write_waiting()
        return url

    def write_waiting(self) -> None:
        """Write the files that are not in the store yet."""
        self.files.write_many(self.waiting)
        self.waiting.clear()

    # ---- delete files, which name data files ----

    @staticmethod
    def is_live_delete(record: dict[str, Any], names: Names) -> bool:
        """Whether an entry is that of a live position delete file or deletion vector."""
        if _CONTENT not in names or record[names[STATUS]] == DELETED:
            return False
        return bool(record[names[DATA_FILE]][names[_CONTENT]] == Content.POSITION_DELETES)

    def note_delete_file(self, record: dict[str, Any], names: Names) -> None:
        """Note the entry of a live position delete file or deletion vector: it is to be rewritten."""
        if self.is_live_delete(record, names):
            data = record[names[DATA_FILE]]
            self.noted.setdefault(data[names[PATH]], _by_id(data, names))

    def rewrite_delete_files(self) -> None:
        """Rewrite all noted delete files, many at once where the table is remote."""

        def rewrite(noted: tuple[str, Mapping[int, Any]]) -> None:
            self._delete_file(*noted)

        with self.files.fetching([(path, int(entry[_SIZE])) for path, entry in self.noted.items()]):
            self.files.together(rewrite, self.noted.items())

    def _delete_file(self, path: str, entry: Mapping[int, Any]) -> dict[int, Any]:
        """The changed fields of the entry of a delete file, by field id."""
        if path not in self.deletes:
            puffin = str(entry[_FORMAT]).upper() == "PUFFIN"
            self.deletes[path] = self._puffin(path) if puffin else self._positions(path, entry)
        return self.deletes[path]

    def _puffin(self, path: str) -> dict[int, Any]:
        """Rewrite a Puffin file. Blobs keep their order and offsets, and only the footer names data files."""
        data = self.files.read(path)
        blobs, properties = read_footer(data, path)
        blobs = tuple(sorted(blobs, key=lambda blob: blob.offset))
        moved = []
        for blob in blobs:
            texts = dict(blob.properties)
            if "referenced-data-file" in texts:
                texts["referenced-data-file"] = self.path(texts["referenced-data-file"])
            moved.append((replace(blob, properties=texts), data[blob.offset : blob.offset + blob.length]))
        written, placed = write_puffin(moved, properties)
        if [blob.offset for blob in placed] != [blob.offset for blob in blobs]:
            raise UnsupportedError("a Puffin file with gaps between its blobs cannot be relocated", file=path)
        return {PATH: self._put(path, f"{uuid.uuid4()}-deletes.puffin", written), _SIZE: len(written)}

    def _positions(self, path: str, entry: Mapping[int, Any]) -> dict[int, Any]:
        """Rewrite a position delete file, as Parquet."""
        url = self.new_path(path, f"{uuid.uuid4()}-deletes.parquet")
        if self.dry_run:
            return {PATH: url}
        old = DeleteFile(
            path, str(entry[_FORMAT]).upper(), Content.POSITION_DELETES, 0, (), int(entry[_ROWS]), int(entry[_SIZE])
        )
        by_path = {self.path(name): positions for name, positions in positions_by_path(self.files, old).items()}
        layout = Layout.of({"write.format.default": "parquet"}, Schema(*POSITION_DELETE_FIELDS))
        self.written.append(self.stored(url))
        file = write_positions(self.files, self.stored(url), sorted(by_path.items(), key=lambda item: item[0]), layout)
        changes = {
            PATH: url, _FORMAT: "PARQUET", _ROWS: file.rows, _SIZE: file.size, _OFFSETS: list(file.split_offsets),
        }  # fmt: skip
        return changes | _metrics(file.metrics)


def _by_id(record: dict[str, Any], names: Names) -> dict[int, Any]:
    """The values of a record by field id."""
    return {id: record[name] for id, name in names.items() if name in record}


def _metrics(metrics: Metrics) -> dict[int, Any]:
    """Metrics by field id as the records of manifests store them: a map is a list of pairs."""
    return {
        id: [{"key": key, "value": value} for key, value in getattr(metrics, name).items()]
        for id, name in _METRICS.items()
    }
