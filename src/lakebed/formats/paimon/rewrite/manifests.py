"""Rewriting manifests: small ones become few full ones, and entries of deleted files go. Data files stay as they are.

Rules: Paimon's CompactManifestProcedure and FileStoreCommitImpl.compactManifest: a full merge at any size, as one
COMPACT snapshot whose delta is empty. Writers may commit meanwhile; then the manifests are merged anew.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakebed.errors import UsageError, counted
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import ManifestFileMeta
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import CommitKind, Snapshot
from lakebed.formats.paimon.commit.kinds import Changes, NewSnapshot
from lakebed.formats.paimon.commit.loop import commit_snapshot
from lakebed.formats.paimon.commit.manifest_merge import FullMerge, MergeSettings, NothingToMergeError, minor_groups
from lakebed.formats.paimon.definition import refuse_unserved
from lakebed.formats.paimon.layout import manifest_path
from lakebed.formats.paimon.manifests import data_manifests
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.unserved import Use
from lakebed.kernel.again import looks_again
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.where import Where
from lakebed.model.commit import BATCH_IDENTIFIER
from lakebed.model.upkeep import RewriteGroup, RewriteResult, Skipped


def rewrite_manifests(
    history: History, schema: TableSchema, options: Options, where: Where, dry_run: bool
) -> RewriteResult:
    """Rewrite the manifests of the branch that is open. The result counts manifests and their bytes.

    UsageError for a `where`.
    """
    table = history.store.location
    if where is not None:
        raise UsageError("a rewrite of manifests has no `where`", table=table, todo="Leave it out")
    refuse_unserved(schema, options, Use.WRITE, table)
    settings = MergeSettings.of(options).of_a_rewrite
    types = [field.type for field in schema.project(schema.partition_keys)]

    @looks_again
    def planned() -> tuple[Snapshot | None, _Plan]:
        latest = history.latest()
        metas = data_manifests(history.store, latest) if latest is not None else []
        full = FullMerge.of(history.store, metas, settings, types)
        return latest, _full(history, full) if full is not None else _minor(metas, settings)

    latest, plan = planned()
    if dry_run or not plan.groups:
        return plan.result(dry_run)
    user = f"{options[opt.COMMIT_USER_PREFIX]}{uuid.uuid4()}"
    new = NewSnapshot(user, BATCH_IDENTIFIER, CommitKind.COMPACT, Changes(), merges_manifests=True)
    try:
        snapshot = commit_snapshot(history, schema, options, new, latest)
    except NothingToMergeError:
        note = "nothing was merged: another writer merged the manifests meanwhile"
        return RewriteResult(0, 0, 0, 0, 0, plan.skipped, notes=(note,))
    return _done(history, snapshot, plan)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The groups of manifests to merge, and the manifests that stay."""

    groups: tuple[RewriteGroup, ...]
    skipped: tuple[Skipped, ...]

    def result(self, dry_run: bool) -> RewriteResult:
        groups = self.groups
        return RewriteResult(
            sum(group.files for group in groups),
            sum(group.files_after for group in groups),
            sum(group.size for group in groups),
            sum(group.size_after for group in groups),
            len(groups),
            self.skipped,
            dry_run,
            groups,
        )


def _full(history: History, merge: FullMerge) -> _Plan:
    """The plan of a full merge, whose manifests are read."""
    skipped = [_left(meta, "it is full, and no deleted file is in its partitions") for meta in merge.kept]
    live, staying = 0, set[str]()
    for manifest, entries in merge.pieces(history.store):
        if manifest is None:
            live += len(entries)
        else:
            skipped.append(_left(manifest, "it is full, and none of its files was deleted"))
            staying.add(manifest.file_name)
    written = [meta for meta in merge.touched if meta.file_name not in staying]
    before, size = sum(map(_entries, written)), sum(meta.file_size for meta in written)
    size_after = size * live // max(1, before)
    small = sum(meta.file_size < merge.settings.target_size for meta in written)
    manifests, whole = counted(len(written), "manifest"), counted(before, "entry", "entries")
    reason = (
        f"{counted(small, f'of {manifests} is', f'of {manifests} are')} small, "
        f"{counted(before - live, f'of {whole} is', f'of {whole} are')} of deleted files"
    )
    after = -(-size_after // merge.settings.target_size)
    return _Plan((RewriteGroup("manifest", len(written), size, after, size_after, reason),), tuple(skipped))


def _minor(metas: Sequence[ManifestFileMeta], settings: MergeSettings) -> _Plan:
    """The plan of a minor merge, of neighbours."""
    groups: list[RewriteGroup] = []
    skipped: list[Skipped] = []
    for group in minor_groups(metas, settings):
        size = sum(meta.file_size for meta in group)
        if len(group) == 1:
            small = settings.must_change(group[0])
            skipped.append(_left(group[0], "it has nothing to be merged with" if small else "it has a good size"))
        else:
            reason = f"{counted(len(group), 'manifest')} beside each other are joined"
            groups.append(RewriteGroup("manifest", len(group), size, -(-size // settings.target_size), size, reason))
    return _Plan(tuple(groups), tuple(skipped))


def _done(history: History, snapshot: Snapshot, plan: _Plan) -> RewriteResult:
    """The result of a rewrite: the manifests of a snapshot beside those of the one before."""
    instants, groups, skipped = (str(snapshot.id),), len(plan.groups), plan.skipped
    before = history.find(snapshot.id - 1)
    if before is None:
        note = "the figures are those of the plan: the snapshot before has expired"
        return replace(plan.result(False), plan=(), instants=instants, notes=(note,))
    old, new = (
        {meta.file_name: meta.file_size for meta in data_manifests(history.store, each)} for each in (before, snapshot)
    )
    replaced = [size for name, size in old.items() if name not in new]
    written = [size for name, size in new.items() if name not in old]
    return RewriteResult(len(replaced), len(written), sum(replaced), sum(written), groups, skipped, instants=instants)


def _entries(meta: ManifestFileMeta) -> int:
    return meta.num_added_files + meta.num_deleted_files


def _left(meta: ManifestFileMeta, reason: str) -> Skipped:
    return Skipped(manifest_path(meta.file_name), reason)
