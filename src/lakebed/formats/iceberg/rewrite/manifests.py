"""Rewriting manifests: many small or unordered manifests become few that hold neighbouring partitions.

Rules: the reference engine's RewriteManifestsSparkAction and BaseRewriteManifests. The live entries of the manifests of
one spec become existing entries with their own sequence numbers and row ids, in the order of their partitions. Data and
deletes stay apart. A single manifest that would become one manifest again is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.errors import CorruptError, UsageError, counted
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.catalog.operations import Loaded, TableOperations, refuse_writing
from lakebed.formats.iceberg.codec.manifest import EXISTING
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.commit.attempt import Attempt
from lakebed.formats.iceberg.commit.loop import Produced, commit_snapshot
from lakebed.formats.iceberg.commit.options import CommitOptions
from lakebed.formats.iceberg.manifests import ALL_COLUMNS, iter_entries, manifests_of
from lakebed.kernel.again import looks_again
from lakebed.kernel.arrays import from_numpy, one_chunk
from lakebed.kernel.options import Option, Options, OptionSet, at_least, one_of, option_text
from lakebed.model.upkeep import RewriteResult, Skipped

SPEC_ID: Option[int | None] = Option(
    "spec-id",
    at_least(0),
    None,
    "The partition spec whose manifests are rewritten; the current one by default.",
    aliases=("spec_id",),
)
WHAT = Option(
    "lakebed.rewrite.what",
    one_of("data-files", "position-deletes", "equality-deletes", "manifests"),
    "data-files",
    "What a rewrite works on.",
)
OPTIONS = OptionSet((SPEC_ID, *opt.PROPERTIES), "rewriting manifests", ("lakebed.storage.", "lakebed.catalog."))
_SORTED_BYTES = 128 << 20
"""Up to so many compressed bytes, entries are ordered as a whole; larger manifests are ordered piece by piece."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Manifests of one content, and the size that new ones should have, in bytes."""

    manifests: tuple[ManifestFile, ...]
    target: int

    @property
    def size(self) -> int:
        """The size of the manifests in bytes."""
        return sum(m.length for m in self.manifests)

    @property
    def count(self) -> int:
        """The number of new manifests."""
        return max(1, math.ceil(self.size / self.target))

    @property
    def is_worth_it(self) -> bool:
        """Whether a rewrite would change anything."""
        return len(self.manifests) > 1 or self.count > 1


def rewrite_what(options: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """What a rewrite works on (a value of the option `WHAT`), and the other options."""
    values = [value for key, value in options.items() if key.lower() == WHAT.key]
    others = {key: value for key, value in options.items() if key.lower() != WHAT.key}
    return (WHAT.read(option_text(values[0])) if values else WHAT.default), others


def rewrite_manifests(
    operations: TableOperations, branch: str, options: Mapping[str, object], dry_run: bool
) -> RewriteResult:
    """Rewrite the manifests of one spec. The result counts manifests and their bytes.

    UsageError for a spec that the table does not have, CorruptError when manifests do not have as many entries as their
    list says.
    """
    given = OPTIONS.parse(options)
    loaded, groups = _planned(operations, branch, given)
    before = [manifest for group in groups if group.is_worth_it for manifest in group.manifests]
    skipped = tuple(
        Skipped(manifest.path, "it would become one manifest again")
        for group in groups
        if not group.is_worth_it
        for manifest in group.manifests
    )
    predicted = sum(group.count for group in groups if group.is_worth_it)
    size = sum(m.length for m in before)
    if dry_run or not before:
        return RewriteResult(len(before), predicted, size, size, len(groups), skipped, dry_run)
    after: list[ManifestFile] = []

    def produce(attempt: Attempt) -> Produced:
        chosen = [group for group in _groups(attempt.metadata, attempt.existing, given) if group.is_worth_it]
        after[:] = [manifest for group in chosen for manifest in _rewritten(attempt, group)]
        replaced = {manifest.path for group in chosen for manifest in group.manifests}
        kept = [manifest for manifest in attempt.existing if manifest.path not in replaced]
        counts = {
            "manifests-created": len(after),
            "manifests-kept": len(kept),
            "manifests-replaced": len(replaced),
            "entries-processed": sum(manifest.existing_files_count or 0 for manifest in after),
            "changed-partition-count": 0,
        }
        return Produced("replace", [*after, *kept], {key: str(value) for key, value in counts.items()})

    committed = commit_snapshot(operations, produce, CommitOptions(branch, properties=given.raw), loaded)
    size_after = sum(manifest.length for manifest in after)
    return RewriteResult(len(before), len(after), size, size_after, len(groups), skipped, instants=(committed.instant,))


@looks_again
def _planned(operations: TableOperations, branch: str, given: Options) -> tuple[Loaded, list[_Group]]:
    """The table, and the groups of its manifests. It is read anew where the snapshot expires meanwhile."""
    loaded = operations.load()
    refuse_writing(operations, loaded)
    metadata = loaded.metadata
    head = metadata.head(branch)
    return loaded, _groups(metadata, manifests_of(operations.files, metadata, head) if head else [], given)


def _groups(metadata: TableMetadata, manifests: Sequence[ManifestFile], options: Options) -> list[_Group]:
    spec_id = metadata.default_spec_id if options[SPEC_ID] is None else options[SPEC_ID]
    if spec_id not in metadata.specs:
        raise UsageError(
            f"there is no partition spec {spec_id}",
            table=metadata.location,
            todo=f"Specs: {', '.join(map(str, metadata.specs))}",
        )
    target = opt.properties(metadata.properties, options.raw)[opt.MANIFEST_SIZE]
    groups = []
    for content in (0, 1):
        of_content = tuple(m for m in manifests if m.content == content and m.spec_id == spec_id)
        if of_content:
            groups.append(_Group(of_content, target))
    return groups


def _rewritten(attempt: Attempt, group: _Group) -> list[ManifestFile]:
    """New manifests with the live entries of a group. CorruptError when the manifest list has other counts."""
    written: list[ManifestFile] = []
    count = 0
    for entries in _pieces(attempt, group):
        count += len(entries)
        written += attempt.write(entries, group.manifests[0].spec_id, group.manifests[0].content)
    counts = [(m.added_files_count, m.existing_files_count) for m in group.manifests]
    if all(added is not None and existing is not None for added, existing in counts):
        expected = sum((added or 0) + (existing or 0) for added, existing in counts)
        if count != expected:
            raise CorruptError(
                "manifests do not hold what their list says",
                table=attempt.metadata.location,
                why=f"they have {counted(count, 'live entry', 'live entries')}, the list says {expected}",
            )
    return written


def _pieces(attempt: Attempt, group: _Group) -> Iterator[pa.Table]:
    """The live entries of a group as existing entries, ordered by partition."""
    pieces = iter_entries(attempt.files, attempt.metadata, group.manifests, ALL_COLUMNS)
    if group.size <= _SORTED_BYTES:
        whole = list(pieces)
        pieces = iter([pa.concat_tables(whole)] if whole else [])
    for entries in pieces:
        if not len(entries):
            continue
        place = entries.schema.get_field_index("status")
        status = from_numpy(np.full(len(entries), EXISTING, np.int8))
        yield _by_partition(entries.set_column(place, "status", status))


def _by_partition(entries: pa.Table) -> pa.Table:
    """Entries sorted by their partition values; those of one partition keep their order."""
    kind = entries.schema.field("partition").type
    if not kind.num_fields:
        return entries
    partition = one_chunk(entries["partition"])
    columns = {f"k{n}": column for n, column in enumerate(partition.flatten()) if not pa.types.is_null(column.type)}
    order = pa.table({**columns, "at": np.arange(len(entries))})
    if not columns:
        return entries
    return entries.take(order.sort_by([(name, "ascending") for name in (*columns, "at")])["at"])
