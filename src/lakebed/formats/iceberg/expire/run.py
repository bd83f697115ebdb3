"""Expiring snapshots: the metadata forgets them first, then the files go that only they had.

Rules: the reference engine's RemoveSnapshots and ReachableFileCleanup. Heads of refs stay; a branch keeps its youngest
snapshots by number and age; a ref but `main` goes when its snapshot is older than its own age limit; a snapshot that is
in no ref's history goes by age. With `clean-expired-metadata` the schemas and partition specs go that neither writers
nor a kept snapshot need.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError, UsageError
from lakebed.formats.iceberg import layout
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.catalog.operations import TableOperations
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import MAIN, Ref, Snapshot, TableMetadata
from lakebed.formats.iceberg.codec.updates import MetadataChange, TableRequirement, TableUpdate, ref_is
from lakebed.formats.iceberg.commit.loop import change_metadata
from lakebed.formats.iceberg.commit.writers import before_expiry
from lakebed.formats.iceberg.expire import options as mine
from lakebed.formats.iceberg.files import Files, spelled
from lakebed.formats.iceberg.manifests import iter_entries, manifests_of
from lakebed.formats.iceberg.snapshot import ancestors, iso_time
from lakebed.kernel import clock
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.files.age import certain_now
from lakebed.kernel.files.places import PLACES
from lakebed.kernel.options import Options
from lakebed.model.upkeep import ExpireResult, Skipped


@dataclass(frozen=True, slots=True)
class ExpirePlan:
    """What goes and what stays. `refs` are names of branches and tags that go, `schemas` and `specs` ids."""

    snapshots: tuple[int, ...]
    refs: tuple[str, ...]
    kept: tuple[Skipped, ...] = ()
    schemas: tuple[int, ...] = ()
    specs: tuple[int, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What goes besides snapshots and files."""
        found = [f"schema {id} goes: no snapshot that stays was written with it" for id in self.schemas]
        found += [f"partition spec {id} goes: no manifest that stays is of it" for id in self.specs]
        return (*found, *(f"branch or tag {name} goes: its snapshot is too old" for name in self.refs))


def expire(operations: TableOperations, options: Options, dry_run: bool) -> ExpireResult:
    """Expire snapshots by the options, the refs' rules and the table's properties, and remove their files.

    A file that cannot be removed is named in `kept`; the snapshots are expired all the same.
    """
    start = operations.load().metadata
    refuse_without_gc(operations, start, options)
    now = clock.now_ms()
    first = plan_expiry(start, options, now, operations.name)
    if (first.snapshots or first.refs) and not dry_run:  # something would go: not because our clock is ahead
        now = certain_ms(operations.files, start)
    plans: list[tuple[TableMetadata, ExpirePlan]] = []

    def decide(metadata: TableMetadata) -> MetadataChange:
        plan = plan_expiry(metadata, options, now, operations.name)
        if options[mine.CLEAN_METADATA]:
            plan = with_unused(operations.files, metadata, plan)
        plans.append((metadata, plan))
        requirements, updates = _words(metadata, plan)
        return requirements, [] if dry_run else updates

    change_metadata(operations, decide, _texts(options))
    before, plan = plans[-1]
    unneeded: list[str] = []

    def look() -> None:
        unneeded.extend(unreachable(operations.files, before, set(plan.snapshots)) if plan.snapshots else ())

    notes = plan.notes
    if dry_run:
        look()
    else:
        notes += afterwards("files that only the expired snapshots had stay until orphan files are removed", look)
    stays = outside(operations.files, unneeded)
    beyond = {one.what for one in stays}
    gone = [path for path in unneeded if path not in beyond]
    kept = (*plan.kept, *stays, *(() if dry_run else _remove(operations.files, gone)))
    paths = tuple(inside(before.location, path) for path in gone)
    return ExpireResult(tuple(map(str, plan.snapshots)), paths, kept, dry_run, notes)


def certain_ms(files: Files, metadata: TableMetadata) -> int:
    """A time in milliseconds since 1970 that is not ahead of the clock of the table's store."""
    store, folder = files.place(layout.metadata_folder(metadata.location, metadata.properties))
    return int(certain_now(store, folder) * 1000)


def _words(metadata: TableMetadata, plan: ExpirePlan) -> tuple[list[TableRequirement], list[TableUpdate]]:
    """The plan as a change of metadata. Schemas and specs go only while no writer made one of them the current one."""
    requirements: list[TableRequirement] = [ref_is(ref.name, ref.snapshot_id) for ref in metadata.refs.values()]
    updates: list[TableUpdate] = [{"action": "remove-snapshot-ref", "ref-name": name} for name in plan.refs]
    if plan.snapshots:
        updates += before_expiry(metadata, set(plan.snapshots))
        updates.append({"action": "remove-snapshots", "snapshot-ids": list(plan.snapshots)})
    if plan.schemas:
        requirements.append({"type": "assert-current-schema-id", "current-schema-id": metadata.current_schema_id})
        updates.append({"action": "remove-schemas", "schema-ids": list(plan.schemas)})
    if plan.specs:
        requirements.append({"type": "assert-default-spec-id", "default-spec-id": metadata.default_spec_id})
        updates.append({"action": "remove-partition-specs", "spec-ids": list(plan.specs)})
    return requirements, updates


def plan_expiry(metadata: TableMetadata, options: Options, now: int, table: str) -> ExpirePlan:
    """Which snapshots and refs go, and why the others stay."""
    properties = opt.properties(metadata.properties, _texts(options))
    age = now - properties[opt.MAX_SNAPSHOT_AGE]
    given = options[mine.OLDER_THAN]
    older_than = age if given is None else given
    least = options[mine.RETAIN_LAST] or properties[opt.MIN_SNAPSHOTS]
    plan = _Plan(metadata)
    for ref in metadata.refs.values():
        plan.look_at(ref, older_than, least, now, properties[opt.MAX_REF_AGE])
    for snapshot in metadata.snapshots.values():
        if snapshot.snapshot_id not in plan.in_history and snapshot.timestamp_ms >= older_than:
            plan.keep(snapshot, f"it is in no branch, and younger than {iso_time(older_than)}")
    for snapshot_id in options[mine.SNAPSHOT_IDS]:
        metadata.snapshot(snapshot_id)
        heads = [ref.name for ref in metadata.refs.values() if ref.snapshot_id == snapshot_id]
        if heads:
            raise UsageError(
                f"snapshot {snapshot_id} cannot expire", table=table, instant=str(snapshot_id),
                why=f"{', '.join(heads)} is at it", todo="Delete or move that branch or tag first",
            )  # fmt: skip
        plan.kept.pop(snapshot_id, None)
    gone = tuple(id for id in metadata.snapshots if id not in plan.kept)
    return ExpirePlan(gone, tuple(plan.refs), tuple(Skipped(str(id), why) for id, why in plan.kept.items()))


def with_unused(files: Files, metadata: TableMetadata, plan: ExpirePlan) -> ExpirePlan:
    """The plan with the schemas and specs that are not the current ones and that no kept snapshot or one of its
    manifests names. The manifest lists of kept snapshots are read."""
    kept = [snapshot for id, snapshot in metadata.snapshots.items() if id not in set(plan.snapshots)]
    schemas = {metadata.current_schema_id, *(snapshot.schema_id for snapshot in kept)}
    specs = {metadata.default_spec_id}
    for snapshot in kept:
        specs.update(manifest.spec_id for manifest in manifests_of(files, metadata, snapshot))
    schemas |= _sources(metadata, specs, schemas)
    return replace(
        plan, schemas=tuple(id for id in metadata.schema_documents if id not in schemas),
        specs=tuple(id for id in metadata.specs if id not in specs),
    )  # fmt: skip


def _sources(metadata: TableMetadata, specs: Collection[int], kept: Collection[int | None]) -> set[int]:
    """The newest schemas that have the columns of partition fields which no kept schema has: without one of them
    readers could not tell the type of these partitions' values."""
    known = {id for key, schema in metadata.schemas.items() if key in kept for id in schema.field_ids}
    wanted = {field.source_id for id in specs if id in metadata.specs for field in metadata.specs[id].fields} - known
    found: set[int] = set()
    for key, schema in [*metadata.schemas.items()][::-1]:
        if wanted & schema.field_ids:
            found.add(key)
            wanted -= schema.field_ids
    return found


@dataclass(slots=True)
class _Plan:
    """The plan while refs are looked at."""

    metadata: TableMetadata
    kept: dict[int, str] = field(default_factory=dict)
    refs: list[str] = field(default_factory=list)
    in_history: set[int] = field(default_factory=set)

    def keep(self, snapshot: Snapshot, why: str) -> None:
        """The first reason is the one that is told."""
        self.kept.setdefault(snapshot.snapshot_id, why)

    def look_at(self, ref: Ref, older_than: int, least: int, now: int, max_ref_age: int | None) -> None:
        """Keep what a ref keeps, or let the ref go."""
        head = self.metadata.snapshots.get(ref.snapshot_id)
        limit = ref.max_ref_age_ms if ref.max_ref_age_ms is not None else max_ref_age
        if ref.name != MAIN and (head is None or (limit is not None and now - head.timestamp_ms > limit)):
            self.refs.append(ref.name)
            return
        if head is None:
            return
        word = "branch" if ref.is_branch else "tag"
        self.keep(head, f"{word} {ref.name} is at it")
        if not ref.is_branch:
            self.in_history.update(s.snapshot_id for s in ancestors(self.metadata, head))
            return
        wanted = ref.min_snapshots_to_keep or least
        limit_age = now - ref.max_snapshot_age_ms if ref.max_snapshot_age_ms is not None else older_than
        stays = True
        for number, snapshot in enumerate(ancestors(self.metadata, head)):
            self.in_history.add(snapshot.snapshot_id)
            young = snapshot.timestamp_ms >= limit_age
            stays = stays and (number < wanted or young)
            if stays and young:
                self.keep(snapshot, f"branch {ref.name} keeps snapshots from {iso_time(limit_age)} on")
            elif stays:
                self.keep(snapshot, f"branch {ref.name} keeps its last {wanted}")


# ---- files -----------------------------------------------------------------------------------------------------------


def unreachable(files: Files, metadata: TableMetadata, gone: set[int]) -> list[str]:
    """The files that only these snapshots have: data and delete files, then manifests, then lists and statistics."""
    kept_lists: set[str] = set()
    kept: dict[str, ManifestFile] = {}
    lost: dict[str, ManifestFile] = {}
    lists: list[str] = []
    for snapshot in metadata.snapshots.values():
        manifests = {m.path: m for m in manifests_of(files, metadata, snapshot)}
        if snapshot.snapshot_id in gone:
            lost |= manifests
            lists.append(snapshot.manifest_list)
        else:
            kept |= manifests
            kept_lists.add(snapshot.manifest_list)
    lost = {path: manifest for path, manifest in lost.items() if path not in kept}
    found = list(path_pieces(files, metadata, lost.values()))
    content = pc.unique(pa.concat_arrays(found)) if found else pa.array([], pa.string())
    for piece in path_pieces(files, metadata, kept.values()) if len(content) else ():
        content = content.filter(pc.invert(pc.is_in(content, value_set=piece)))
        if not len(content):
            break
    statistics = {path for id, path in metadata.statistics_files if id in gone}
    statistics -= {path for id, path in metadata.statistics_files if id not in gone}
    removed_lists = [path for path in lists if path and path not in kept_lists]
    return [*content.to_pylist(), *lost, *removed_lists, *sorted(statistics)]


def path_pieces(
    files: Files, metadata: TableMetadata, manifests: Iterable[ManifestFile], live_only: bool = True
) -> Iterator[pa.Array]:
    """The paths of the files in manifests, in pieces of bounded size."""
    by_spec: dict[int, list[ManifestFile]] = {}
    for manifest in manifests:
        by_spec.setdefault(manifest.spec_id, []).append(manifest)
    for some in by_spec.values():
        for entries in iter_entries(files, metadata, some, ("file_path",), live_only=live_only):
            yield from entries["file_path"].chunks


def _remove(files: Files, paths: Sequence[str]) -> list[Skipped]:
    """Files that cannot be removed stay, and are named."""
    try:
        files.delete_many(paths)
    except Exception as error:  # noqa: BLE001 - the snapshots are expired, whatever becomes of their files
        return [Skipped("some files", f"they could not be removed: {error}")]
    return []


def outside(files: Files, paths: Sequence[str]) -> list[Skipped]:
    """Files that nothing needs any more and that stay all the same, for the table may not touch where they lie."""
    why = f"it lies outside the table's own folder; name that folder in the option {PLACES!r} to have it removed"
    return [Skipped(path, why) for path in paths if not files.reaches(path)]


def refuse_without_gc(operations: TableOperations, metadata: TableMetadata, options: Options) -> None:
    """UnsupportedError for a table whose files may not be deleted."""
    if not opt.properties(metadata.properties, _texts(options))[opt.GC_ENABLED]:
        raise UnsupportedError(
            "the files of this table may not be deleted", table=operations.name, why="gc.enabled is false",
            todo="Other tables may share its files. Set gc.enabled=true only if none does",
        )  # fmt: skip


def inside(location: str, path: str) -> str:
    """A location below the table as a path in it; any other as it is."""
    root, text = spelled(location), spelled(path)
    return text[len(root) + 1 :] if text.startswith(root + "/") else path


def _texts(options: Options) -> Mapping[str, str]:
    return options.raw
