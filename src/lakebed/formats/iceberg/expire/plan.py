"""Which snapshots expire, and why the others stay.

Rules: the reference engine's RemoveSnapshots. The heads of branches and tags stay. A branch keeps its youngest
snapshots by number and by age. A branch or tag other than `main` goes when its snapshot is older than its own age
limit. A snapshot that no branch or tag has in its history goes by age. With `clean-expired-metadata`, schemas and
partition specs go that neither writers nor a kept snapshot need.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from lakebed.errors import UsageError
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.codec.metadata import MAIN, TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Ref, Snapshot
from lakebed.formats.iceberg.expire import options as expire_options
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import lists_ahead, manifests_of
from lakebed.formats.iceberg.snapshot import ancestors, iso_time
from lakebed.kernel.options import Options
from lakebed.model.upkeep import Skipped


@dataclass(frozen=True, slots=True)
class ExpirePlan:
    """What goes, and why the rest stays. `refs` are names of branches and tags that go, `schemas` and `specs` ids."""

    snapshots: tuple[int, ...]
    refs: tuple[str, ...]
    kept: tuple[Skipped, ...] = ()
    schemas: tuple[int, ...] = ()
    specs: tuple[int, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What goes besides snapshots and files, one sentence each."""
        notes = [f"schema {id} goes: no snapshot that stays was written with it" for id in self.schemas]
        notes += [f"partition spec {id} goes: no manifest that stays has it" for id in self.specs]
        return (*notes, *(f"branch or tag {name} goes: its snapshot is too old" for name in self.refs))


def plan_expiry(metadata: TableMetadata, options: Options, now: int, table: str) -> ExpirePlan:
    """Decide which snapshots, branches and tags go. `now` is milliseconds since 1970, `table` is for error texts.

    UsageError when the option `snapshot-ids` names the head of a branch or tag.
    """
    properties = opt.properties(metadata.properties, options.raw)
    given = options[expire_options.OLDER_THAN]
    limits = _Limits(
        now=now,
        older_than=now - properties[opt.MAX_SNAPSHOT_AGE] if given is None else given,
        least=options[expire_options.RETAIN_LAST] or properties[opt.MIN_SNAPSHOTS],
        max_ref_age=properties[opt.MAX_REF_AGE],
    )
    draft = _Draft(metadata)
    for ref in metadata.refs.values():
        draft.consider(ref, limits)
    for snapshot in metadata.snapshots.values():
        if snapshot.snapshot_id not in draft.in_history and snapshot.timestamp_ms >= limits.older_than:
            draft.keep(snapshot, f"it is in no branch, and younger than {iso_time(limits.older_than)}")
    for snapshot_id in options[expire_options.SNAPSHOT_IDS]:
        metadata.snapshot(snapshot_id)
        heads = [ref.name for ref in metadata.refs.values() if ref.snapshot_id == snapshot_id]
        if heads:
            raise UsageError(
                f"snapshot {snapshot_id} cannot expire",
                table=table,
                instant=str(snapshot_id),
                why=f"{', '.join(heads)} is at it",
                todo="Delete or move that branch or tag first",
            )
        draft.kept.pop(snapshot_id, None)
    expired = tuple(id for id in metadata.snapshots if id not in draft.kept)
    return ExpirePlan(expired, tuple(draft.refs), tuple(Skipped(str(id), why) for id, why in draft.kept.items()))


@dataclass(frozen=True, slots=True)
class _Limits:
    """The table's own limits, in milliseconds: `older_than` since 1970, `max_ref_age` an age (None: none). `least` is
    how many snapshots a branch keeps."""

    now: int
    older_than: int
    least: int
    max_ref_age: int | None


@dataclass(slots=True)
class _Draft:
    """The plan while branches and tags are considered."""

    metadata: TableMetadata
    kept: dict[int, str] = field(default_factory=dict)
    refs: list[str] = field(default_factory=list)
    in_history: set[int] = field(default_factory=set)

    def keep(self, snapshot: Snapshot, why: str) -> None:
        """Keep a snapshot. The first reason is the one that the plan reports."""
        self.kept.setdefault(snapshot.snapshot_id, why)

    def consider(self, ref: Ref, limits: _Limits) -> None:
        """Keep the snapshots that a branch or tag keeps, or let the branch or tag go."""
        head = self.metadata.snapshots.get(ref.snapshot_id)
        max_age = ref.max_ref_age_ms if ref.max_ref_age_ms is not None else limits.max_ref_age
        if ref.name != MAIN and (head is None or (max_age is not None and limits.now - head.timestamp_ms > max_age)):
            self.refs.append(ref.name)
            return
        if head is None:
            return
        self.keep(head, f"{'branch' if ref.is_branch else 'tag'} {ref.name} is at it")
        if not ref.is_branch:
            self.in_history.update(s.snapshot_id for s in ancestors(self.metadata, head))
            return
        least = ref.min_snapshots_to_keep or limits.least
        own_age = ref.max_snapshot_age_ms
        older_than = limits.now - own_age if own_age is not None else limits.older_than
        stays = True
        for number, snapshot in enumerate(ancestors(self.metadata, head)):
            self.in_history.add(snapshot.snapshot_id)
            is_young = snapshot.timestamp_ms >= older_than
            stays = stays and (number < least or is_young)
            if stays and is_young:
                self.keep(snapshot, f"branch {ref.name} keeps snapshots from {iso_time(older_than)} on")
            elif stays:
                self.keep(snapshot, f"branch {ref.name} keeps its last {least}")


def with_unused(files: Files, metadata: TableMetadata, plan: ExpirePlan) -> ExpirePlan:
    """The plan with the schemas and specs that can go: not the current ones, and named by no kept snapshot and none of
    its manifests. Reads the manifest lists of kept snapshots."""
    expired = set(plan.snapshots)
    kept = [snapshot for id, snapshot in metadata.snapshots.items() if id not in expired]
    schemas = {metadata.current_schema_id, *(snapshot.schema_id for snapshot in kept)}
    specs = {metadata.default_spec_id}
    files = lists_ahead(files, kept)
    for snapshot in kept:
        specs.update(manifest.spec_id for manifest in manifests_of(files, metadata, snapshot))
    schemas |= _schemas_of_specs(metadata, specs, schemas)
    return replace(
        plan,
        schemas=tuple(id for id in metadata.schema_documents if id not in schemas),
        specs=tuple(id for id in metadata.specs if id not in specs),
    )


def _schemas_of_specs(metadata: TableMetadata, specs: Collection[int], kept: Collection[int | None]) -> set[int]:
    """The newest schemas with the columns of partition fields that no kept schema has.

    Without these schemas readers could not tell the type of the partition values.
    """
    kept_columns = {id for key, schema in metadata.schemas.items() if key in kept for id in schema.field_ids}
    sources = {field.source_id for id in specs if id in metadata.specs for field in metadata.specs[id].fields}
    missing = sources - kept_columns
    needed: set[int] = set()
    for key, schema in [*metadata.schemas.items()][::-1]:
        if missing & schema.field_ids:
            needed.add(key)
            missing -= schema.field_ids
    return needed
