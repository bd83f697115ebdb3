"""What a snapshot names and what of it is lost: its manifest list, its manifests, data files and delete files.

Nothing comes from a cache: every file is asked for where it lies. A manifest is lost when it cannot be read, or does
not hold as many entries as its list says; what it named is then not known. Rules: the specification's "Manifest Lists"
and "Manifests".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError
from lakebed.formats.iceberg.codec.manifest import COLUMNS, decode_entries
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.partition_type import partition_type
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.data_files import DataFile, DeleteFile, data_files, delete_files
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import decoded_list, manifests_of
from lakebed.formats.iceberg.repair.check import MISSING, Checker, Verdict, check_all
from lakebed.kernel.engine import Engine, LocalEngine

DELETE_COLUMNS = (*COLUMNS, "null_value_counts", "lower_bounds", "upper_bounds")
"""The columns of delete entries, with the bounds that tell which data file a position delete is about."""


@dataclass(slots=True)
class Findings:
    """What a check found: what is lost by its path (a delete also by its offset), with the reason as text.

    `unchecked` are files about which nothing is known, by path, `checked` is how many files of entries were looked at.
    """

    lists: dict[str, tuple[Snapshot, str]] = field(default_factory=dict)
    manifests: dict[ManifestFile, str] = field(default_factory=dict)
    data: dict[str, tuple[DataFile, str]] = field(default_factory=dict)
    deletes: dict[tuple[str, int | None], tuple[DeleteFile, str]] = field(default_factory=dict)
    unchecked: dict[str, str] = field(default_factory=dict)
    checked: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing is lost."""
        return not (self.lists or self.manifests or self.data or self.deletes)

    @property
    def paths(self) -> dict[str, None]:
        """The paths of all that is lost, each once."""
        return dict.fromkeys([
            *self.lists, *(manifest.path for manifest in self.manifests),
            *self.data, *(path for path, _ in self.deletes),
        ])  # fmt: skip

    def add(self, entries: pa.Table, verdicts: Sequence[Verdict]) -> None:
        """Add entries of one spec that are not whole."""
        for place, verdict in enumerate(verdicts):
            entry = entries.slice(place, 1)
            if not verdict.is_lost:
                self.unchecked[entry["file_path"][0].as_py()] = verdict.reason
            elif entry["content"][0].as_py():
                (delete,) = delete_files(entry)
                self.deletes[delete.path, delete.content_offset] = delete, verdict.reason
            else:
                (file,) = data_files(entry)
                self.data[file.path] = file, verdict.reason


def check_snapshots(
    files: Files, metadata: TableMetadata, snapshots: Iterable[Snapshot], checker: Checker, engine: Engine
) -> Findings:
    """Check all that these snapshots name, each file once. Raises StorageError when the store fails."""
    findings = Findings()
    manifests: dict[str, ManifestFile] = {}
    for snapshot in snapshots:
        reason = list_verdict(files, snapshot)
        if reason is None:
            manifests |= {m.path: m for m in manifests_of(files, metadata, snapshot) if m.has_live}
        else:
            findings.lists[snapshot.manifest_list] = snapshot, reason

    def pieces() -> Iterator[pa.Table]:
        for manifest, entries in readable(files, metadata, manifests.values(), findings.manifests):
            yield entries if manifest.content else entries.select([*COLUMNS])

    def count(checked: int) -> None:
        findings.checked += checked

    for entries, verdicts in check_all(checker, pieces(), engine, count):
        findings.add(entries, verdicts)
    return findings


def list_verdict(files: Files, snapshot: Snapshot) -> str | None:
    """Why the manifest list of a snapshot is lost, None where it is whole."""
    if not snapshot.manifest_list:
        return None
    try:
        decoded_list(snapshot, files.read(snapshot.manifest_list))
    except FileNotFoundError:
        return MISSING
    except CorruptError as error:
        return error.why or error.what
    return None


def readable(
    files: Files, metadata: TableMetadata, manifests: Iterable[ManifestFile], lost: dict[ManifestFile, str]
) -> Iterator[tuple[ManifestFile, pa.Table]]:
    """The live entries of each manifest that can be read, in order. The others come into `lost`, with the reason."""

    def read(manifest: ManifestFile) -> tuple[ManifestFile, pa.Table | str]:
        try:
            data = files.read(manifest.path)
            spec = metadata.specs[manifest.spec_id]
            columns = DELETE_COLUMNS if manifest.content else COLUMNS
            return manifest, decode_entries([manifest], [data], spec, partition_type(metadata, spec), columns)
        except FileNotFoundError:
            return manifest, MISSING
        except CorruptError as error:
            return manifest, error.why or error.what

    for manifest, entries in LocalEngine(max(2, min(16, files.at_once))).map(read, manifests):
        if isinstance(entries, str):
            lost[manifest] = entries
        else:
            yield manifest, entries


def naming(files: Files, metadata: TableMetadata, paths: Iterable[str]) -> Mapping[str, list[Snapshot]]:
    """The snapshots that name each of these files, oldest first. Snapshots that cannot be read name nothing."""
    named: dict[str, dict[int, Snapshot]] = {path: {} for path in paths}
    snapshots_of: dict[str, dict[int, Snapshot]] = {}
    manifests: dict[str, ManifestFile] = {}
    for snapshot in metadata.snapshots.values():
        of_snapshot = {snapshot.manifest_list} & named.keys()
        if list_verdict(files, snapshot) is None:
            listed = {manifest.path: manifest for manifest in manifests_of(files, metadata, snapshot)}
            manifests |= listed
            of_snapshot |= listed.keys() & named.keys()
            for path in listed:
                snapshots_of.setdefault(path, {})[snapshot.snapshot_id] = snapshot
        for path in of_snapshot:
            named[path][snapshot.snapshot_id] = snapshot
    wanted = pa.array(sorted(named), pa.string())
    for manifest, entries in readable(files, metadata, manifests.values(), {}):
        of_files = entries["file_path"]
        for path in set(of_files.filter(pc.is_in(of_files, value_set=wanted)).to_pylist()):
            named[path] |= snapshots_of[manifest.path]
    return {
        path: sorted(of_path.values(), key=lambda each: (each.sequence_number, each.timestamp_ms))
        for path, of_path in named.items()
    }
