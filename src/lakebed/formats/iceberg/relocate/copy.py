"""A table's metadata for another place, and the list of files to copy there.

Rules: Iceberg's procedure `rewrite_table_path` and its RewriteTablePathUtil. Metadata, manifest lists, manifests,
position delete files and Puffin files of deletion vectors are written to a staging folder with the paths of the target;
all other files are copied as they are. The table itself is only read, so it may be a backup that no catalog knows.
Once the list is copied, the copy names no file of the original: a file outside the table's folder is refused.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from typing import Any

from lakebed.errors import CorruptError, NotInHistoryError, UnsupportedError, UsageError
from lakebed.formats.iceberg.catalog.operations import TableOperations, refuse_reading_manifests
from lakebed.formats.iceberg.codec.json_array import document_to_json
from lakebed.formats.iceberg.codec.metadata import TableMetadata, metadata_from_json
from lakebed.formats.iceberg.expire.unused import paths_in
from lakebed.formats.iceberg.files import Files, spelled
from lakebed.formats.iceberg.layout import VERSION_HINT, hadoop_version
from lakebed.formats.iceberg.manifests import manifests_of
from lakebed.formats.iceberg.relocate.paths import Names, as_json
from lakebed.formats.iceberg.relocate.run import DATA_FILE, DELETED, PATH, STATUS, Move
from lakebed.kernel.files import parse_location
from lakebed.kernel.files.places import is_below
from lakebed.model.upkeep import TablePathResult

FILE_LIST = "file-list.csv"
"""The name of the list in the staging folder: one line per file, where it is and where it goes."""


def rewrite_table_path(
    operations: TableOperations, target: str, staging: str, since: str, dry_run: bool
) -> TablePathResult:
    """Write the metadata of a copy at `target` to `staging`, and list what is to be copied.

    With `since`, the name or location of an older metadata file, the data files that it knows are left out: an earlier
    copy has them. UnsupportedError for a table with files outside its folder, CorruptError where files are missing.
    After an error the staging folder has nothing of this run.
    """
    loaded = operations.load()
    refuse_reading_manifests(operations)
    metadata, here = loaded.metadata, operations.files
    goal, stage = parse_location(target).text.rstrip("/"), parse_location(staging).text.rstrip("/")
    home = here.home.location
    for name, place in (("target", goal), ("staging folder", stage)):
        if is_below(place, home) or is_below(home, place):
            raise UsageError(f"the {name} is inside the table, or the table inside it", table=home, file=place)
    if is_below(stage, goal) or is_below(goal, stage):
        raise UsageError("the staging folder and the target are inside one another", table=home, file=stage)
    files = Files(here.home, here.credentials, (*here.named, stage), here.made_at)
    copy = Copy(files, metadata, dry_run, target=goal, staging=stage)
    known = _known(files, metadata, since) if since else set()
    copy.collect()
    try:
        location = copy.write(loaded.location)
        copies = tuple((source, to) for source, to in copy.copies.items() if source not in known)
        if not dry_run:
            lines = io.StringIO()
            csv.writer(lines, lineterminator="\n").writerows(copies)
            copy.written.append(f"{stage}/{FILE_LIST}")
            files.write(f"{stage}/{FILE_LIST}", lines.getvalue().encode())
    except Exception:
        copy.remove()
        raise
    return TablePathResult(location, stage, copies, len(copy.manifests), len(copy.deletes), dry_run)


@dataclass(slots=True)
class Copy(Move):
    """The metadata of a table for another place. `copies` has, by where it is now, where each file goes."""

    target: str = ""
    staging: str = ""
    copies: dict[str, str] = field(default_factory=dict)

    def path(self, url: str) -> str:
        """The path of a file at the target. UnsupportedError for a file outside the table's folder."""
        here = spelled(self.files.moved(url))
        home = self.files.home.location
        if not is_below(here, home):
            raise UnsupportedError(
                "a file lies outside the table's folder, so the copy and the table would share it",
                table=home, file=url, todo="Rewrite its rows into the table's folder first, with table.rewrite",
            )  # fmt: skip
        return self.target + here[len(home) :]

    def new_path(self, old: str, name: str) -> str:
        """The path of a rewritten file at the target: its own name, as in an earlier copy."""
        url = self.path(old)
        if name.endswith("-deletes.parquet") and not url.lower().endswith(".parquet"):
            url += ".parquet"
        self.copies[self.stored(url)] = url
        return url

    def stored(self, url: str) -> str:
        """The place in the staging folder of a file of the target."""
        return self.staging + url[len(self.target) :]

    def collect(self) -> None:
        """Note the files that are copied, and the delete files that are rewritten. CorruptError for missing
        metadata."""
        missing: list[str] = []

        def look(record: dict[str, Any], names: Names) -> None:
            self.note_delete_file(record, names)
            url = record[names[DATA_FILE]][names[PATH]]
            if record[names[STATUS]] != DELETED and not self.is_live_delete(record, names):
                self.copies[self.files.moved(url)] = self.path(url)

        self.entries(look, missing)
        if missing:
            raise CorruptError(
                "manifests are missing", table=self.files.location, file=missing[0],
                todo="Repair the table first, with table.repair",
            )  # fmt: skip

    def write(self, location: str) -> str:
        """Write the metadata to the staging folder. Returns the location of the metadata file at the target."""
        document = as_json(self.metadata.document)
        document["location"] = self.target
        document["metadata-log"] = []  # older versions are not copied
        self.rewrite_delete_files()
        self.place(document)
        for _, url in self.metadata.statistics_files:
            self.copies[self.files.moved(url)] = self.path(url)
        name = location.rpartition("/")[2]
        plain = name.replace(".gz.metadata.json", ".metadata.json").replace(".metadata.json.gz", ".metadata.json")
        place = f"{self.target}/metadata/{plain}"
        self._add(place, document_to_json(document))
        version = hadoop_version(plain)
        if version is not None:
            self._add(f"{self.target}/metadata/{VERSION_HINT}", str(version).encode())
        self.write_waiting()
        return place

    def _add(self, url: str, data: bytes) -> None:
        self.copies[self.stored(url)] = url
        if not self.dry_run:
            self.written.append(self.stored(url))
            self.waiting[self.stored(url)] = data


def _known(files: Files, metadata: TableMetadata, since: str) -> set[str]:
    """The data files that an older metadata file knows, where they are now. They were copied with it."""
    logged = {url.rpartition("/")[2]: url for _, url in metadata.metadata_log}
    name = since.rpartition("/")[2]
    if name not in logged:
        raise NotInHistoryError(
            f"{since} is not an older metadata file of this table", table=files.location,
            todo=f"Known: {', '.join([*logged][-5:]) or 'none'}",
        )  # fmt: skip
    try:
        older = metadata_from_json(files.read(logged[name]), logged[name])
    except FileNotFoundError as error:
        raise NotInHistoryError(
            f"the metadata file {name} is gone", table=files.location, todo="Copy the whole table"
        ) from error
    known: set[str] = set()
    for snapshot in older.snapshots.values():
        if snapshot.snapshot_id in metadata.snapshots:  # the manifests of others may be gone
            for paths in paths_in(files, older, manifests_of(files, older, snapshot)):
                known.update(map(files.moved, paths.to_pylist()))
    return known
