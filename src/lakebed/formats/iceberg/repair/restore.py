"""Lost files brought back from a kept copy of the table's folder: each to its own place, and only if the copy is whole.

Files of Iceberg tables never change under their name, so a copy with the stated length and rows has the same bytes. A
restore needs no commit, and one that was interrupted is finished by the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakebed.errors import CorruptError, UsageError
from lakebed.formats.iceberg.codec.manifest import decode_entries
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.partition_type import partition_type
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.data_files import DataFile, DeleteFile
from lakebed.formats.iceberg.files import Files, spelled
from lakebed.formats.iceberg.manifests import decoded_list
from lakebed.formats.iceberg.repair.check import PUFFIN, Checker, NamedFile
from lakebed.formats.iceberg.repair.scan import Findings
from lakebed.kernel.files import parse_location
from lakebed.kernel.files.places import is_below

_PIECE = 8 << 20


def found_in_copy(files: Files, metadata: TableMetadata, findings: Findings, copy: str, depth: str) -> dict[str, str]:
    """What is lost and whole in a copy: the location in the copy, by path.

    UsageError when the copy is the table's own folder.
    """
    if not copy:
        return {}
    root, home = parse_location(copy).text.rstrip("/"), spelled(metadata.location)
    if is_below(root, home) or is_below(home, root):
        raise UsageError("the copy is the table's own folder", file=copy, todo="Name the folder of another copy")
    reading = files.also(root)

    def placed(path: str) -> str | None:
        here = spelled(path)
        return root + here[len(home) :] if is_below(here, home) else None

    whole: dict[str, str] = {}
    for path, (snapshot, _) in findings.lists.items():
        if (place := placed(path)) and _decodes(reading, snapshot, place):
            whole[path] = place
    for manifest in findings.manifests:
        if (place := placed(manifest.path)) and _holds(reading, metadata, manifest, place):
            whole[manifest.path] = place
    checker = Checker(reading, depth, max(1, files.at_once))
    lost: list[DataFile | DeleteFile] = [file for file, _ in findings.data.values()]
    lost += [delete for delete, _ in findings.deletes.values()]
    places = [(file, place) for file in lost if (place := placed(file.path)) is not None]
    bad = {places[number][0].path for number, _ in checker([_named(file, place) for file, place in places])}
    whole |= {file.path: place for file, place in places if file.path not in bad}
    return whole


def copy_back(files: Files, copy: str, whole: Mapping[str, str]) -> None:
    """Copy files back to their places. A file that is there, but damaged, is replaced."""
    reading = files.also(parse_location(copy).text.rstrip("/"))

    def restore(item: tuple[str, str]) -> None:
        path, place = item
        with reading.open_input(place) as source, files.open_output(path) as target:
            while piece := source.read(_PIECE):
                target.write(piece)

    files.together(restore, whole.items())


def _named(file: DataFile | DeleteFile, place: str) -> NamedFile:
    named = NamedFile(place, file.format, file.size, file.record_count)
    if isinstance(file, DeleteFile) and file.format == PUFFIN:
        return replace(named, offset=file.content_offset, length=file.content_size)
    return named


def _decodes(files: Files, snapshot: Snapshot, place: str) -> bool:
    try:
        decoded_list(snapshot, files.read(place), place)
    except (FileNotFoundError, CorruptError):
        return False
    return True


def _holds(files: Files, metadata: TableMetadata, manifest: ManifestFile, place: str) -> bool:
    """Whether a file is the manifest that the list describes: as long, and with as many entries."""
    try:
        data = files.read(place)
        spec = metadata.specs[manifest.spec_id]
        decode_entries([manifest], [data], spec, partition_type(metadata, spec))
    except (FileNotFoundError, CorruptError):
        return False
    return len(data) == manifest.length
