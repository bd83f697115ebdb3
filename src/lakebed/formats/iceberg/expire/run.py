"""Expiring snapshots: the metadata forgets them first, then the files go that only they need.

Rules: the reference engine's RemoveSnapshots and ReachableFileCleanup (`expire/plan.py`, `expire/unused.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakebed.errors import UnsupportedError
from lakebed.formats.iceberg import layout
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.catalog.operations import Loaded, TableOperations
from lakebed.formats.iceberg.codec.metadata import MAIN, TableMetadata
from lakebed.formats.iceberg.codec.updates import MetadataChange, TableRequirement, TableUpdate, ref_is
from lakebed.formats.iceberg.commit.loop import change_metadata
from lakebed.formats.iceberg.commit.writers import before_expiry
from lakebed.formats.iceberg.expire.named_meanwhile import Stays, named_again
from lakebed.formats.iceberg.expire.options import CLEAN_METADATA
from lakebed.formats.iceberg.expire.plan import ExpirePlan, plan_expiry, with_unused
from lakebed.formats.iceberg.expire.unused import unused_files
from lakebed.formats.iceberg.files import Files, spelled
from lakebed.kernel import clock
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.files.age import certain_now
from lakebed.kernel.files.places import PLACES
from lakebed.kernel.options import Options
from lakebed.model.upkeep import ExpireResult, Skipped


def expire(operations: TableOperations, options: Options, dry_run: bool, base: Loaded) -> ExpireResult:
    """Expire snapshots by the options, the rules of branches and tags, and the table's properties; remove their files.

    `base` is the metadata as the caller has just loaded it. A file that cannot be removed is named in `kept`; the
    snapshots are expired all the same. UnsupportedError when `gc.enabled` is false, UsageError when the options
    name the head of a branch or tag.
    """
    metadata = base.metadata
    refuse_without_gc(operations, metadata, options)
    now = clock.now_ms()
    draft = plan_expiry(metadata, options, now, operations.name)
    if (draft.snapshots or draft.refs) and not dry_run:  # ask the store: our own clock may be ahead
        now = certain_ms(operations.files, metadata)
    plans: list[tuple[TableMetadata, ExpirePlan]] = []

    def decide(metadata: TableMetadata) -> MetadataChange:
        plan = plan_expiry(metadata, options, now, operations.name)
        if options[CLEAN_METADATA]:
            plan = with_unused(operations.files, metadata, plan)
        plans.append((metadata, plan))
        requirements, updates = _change(metadata, plan)
        return requirements, [] if dry_run else updates

    done = change_metadata(operations, decide, options.raw, base)
    before, plan = plans[-1]
    expired, unused = set(plan.snapshots), list[str]()
    stays = Stays(before) if dry_run or not expired else named_again(operations, done, expired, plan.refs)

    def find_unused() -> None:
        if expired and stays.metadata is not None:
            unused.extend(unused_files(operations.files, before, expired, stays.metadata, stays.spared))

    notes = (*plan.notes, *stays.notes)
    if dry_run:
        find_unused()
    else:
        notes += afterwards(
            "files that only the expired snapshots had stay until orphan files are removed", find_unused
        )
    out_of_reach = _outside(operations.files, unused)
    untouched = {skipped.what for skipped in out_of_reach}
    within_reach = [path for path in unused if path not in untouched]
    standing = {} if dry_run else operations.files.undeleted(within_reach)
    removed = [path for path in within_reach if path not in standing]
    return ExpireResult(
        tuple(map(str, plan.snapshots)),
        tuple(inside(before.location, path) for path in removed),
        (*plan.kept, *out_of_reach, *not_removed(standing, before.location)),
        dry_run,
        notes,
    )


def certain_ms(files: Files, metadata: TableMetadata) -> int:
    """A time in milliseconds since 1970 that is not ahead of the clock of the table's store."""
    store, folder = files.place(layout.metadata_folder(metadata.location, metadata.properties))
    return int(certain_now(store, folder) * 1000)


def _change(metadata: TableMetadata, plan: ExpirePlan) -> MetadataChange:
    """The plan as a change of metadata. Schemas and specs go only if no writer has made one of them the current one.
    Where the table has no rows yet, a staged snapshot goes only if nobody has published it as the first one."""
    requirements: list[TableRequirement] = [ref_is(ref.name, ref.snapshot_id) for ref in metadata.refs.values()]
    if MAIN not in metadata.refs:
        requirements.append(ref_is(MAIN, None))
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


# ---- files -----------------------------------------------------------------------------------------------------------


def not_removed(standing: Mapping[str, Exception], folder: str) -> list[Skipped]:
    """Why files stay that were to be removed."""
    return [Skipped(inside(folder, path), f"it could not be removed: {error}") for path, error in standing.items()]


def _outside(files: Files, paths: Sequence[str]) -> list[Skipped]:
    """The files that stay although nothing needs them, since the table may not touch the places where they lie."""
    why = f"it lies outside the table's own folder; name that folder in the option {PLACES!r} to have it removed"
    return [Skipped(path, why) for path in paths if not files.reaches(path)]


def refuse_without_gc(operations: TableOperations, metadata: TableMetadata, options: Options) -> None:
    """UnsupportedError for a table whose files may not be deleted."""
    if not opt.properties(metadata.properties, options.raw)[opt.GC_ENABLED]:
        raise UnsupportedError(
            "the files of this table may not be deleted",
            table=operations.name,
            why="gc.enabled is false",
            todo="Other tables may share its files. Set gc.enabled=true only if none does",
        )


def inside(location: str, path: str) -> str:
    """A path below the table's location as a path relative to it; any other path unchanged."""
    root, text = spelled(location), spelled(path)
    return text[len(root) + 1 :] if text.startswith(root + "/") else path
