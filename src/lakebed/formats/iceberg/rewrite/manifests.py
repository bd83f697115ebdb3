"""Rewriting manifests: many small ones, or ones in no order, become few that hold neighbouring partitions.

Rules: the reference engine's RewriteManifestsSparkAction and BaseRewriteManifests. Manifests of one spec are read,
their live entries become existing ones with their own sequence numbers and row ids, in the order of their partitions;
data and deletes stay apart. Nothing is done where one manifest would become one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.errors import CorruptError, UsageError
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.catalog.operations import TableOperations
from lakebed.formats.iceberg.codec.manifest import EXISTING
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.commit.attempt import Attempt
from lakebed.formats.iceberg.commit.loop import Produced, commit_snapshot
from lakebed.formats.iceberg.manifests import iter_entries, manifests_of
from lakebed.kernel.arrays import one_chunk
from lakebed.kernel.options import Option, Options, OptionSet, at_least, one_of, option_text
from lakebed.model.upkeep import RewriteResult, Skipped

SPEC_ID: Option[int | None] = Option(
    "spec-id", at_least(0), None, "The partition spec whose manifests are rewritten; the current one by default.",
    aliases=("spec_id",),
)  # fmt: skip
WHAT = Option(
    "lakebed.rewrite.what", one_of("data-files", "position-deletes", "manifests"), "data-files",
    "What a rewrite works on.",
)  # fmt: skip
OPTIONS = OptionSet((SPEC_ID, *opt.PROPERTIES), "rewriting manifests", ("lakebed.storage.", "lakebed.catalog."))
_SORTED_BYTES = 128 << 20
"""Compressed bytes of manifests up to which entries are ordered as a whole; more are ordered piece by piece."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Manifests of one content, and how many they would become."""

    manifests: tuple[ManifestFile, ...]
    target: int

    @property
    def size(self) -> int:
        """Bytes of them."""
        return sum(m.length for m in self.manifests)

    @property
    def count(self) -> int:
        """Manifests after."""
        return max(1, math.ceil(self.size / self.target))

    @property
    def is_worth_it(self) -> bool:
        """Whether anything changes."""
        return len(self.manifests) > 1 or self.count > 1


def rewrite_what(options: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """What a rewrite works on, and the other options."""
    named = [value for key, value in options.items() if key.lower() == WHAT.key]
    rest = {key: value for key, value in options.items() if key.lower() != WHAT.key}
    return (WHAT.read(option_text(named[0])) if named else WHAT.default), rest


def rewrite_manifests(
    operations: TableOperations, branch: str, options: Mapping[str, object], dry_run: bool
) -> RewriteResult:
    """Rewrite the manifests of one spec. UsageError for a spec that the table does not have.

    The result counts manifests and their bytes.
    """
    given = OPTIONS.parse(options)
    metadata = operations.load().metadata
    head = metadata.head(branch)
    groups = _groups(metadata, manifests_of(operations.files, metadata, head) if head else [], given)
    before = [m for group in groups if group.is_worth_it for m in group.manifests]
    skipped = tuple(
        Skipped(m.path, "it would become one manifest again")
        for group in groups if not group.is_worth_it for m in group.manifests
    )  # fmt: skip
    predicted = sum(group.count for group in groups if group.is_worth_it)
    size = sum(m.length for m in before)
    if dry_run or not before:
        return RewriteResult(len(before), predicted, size, size, len(groups), skipped, dry_run)
    made: list[ManifestFile] = []

    def produce(attempt: Attempt) -> Produced:
        chosen = [g for g in _groups(attempt.metadata, attempt.existing, given) if g.is_worth_it]
        made[:] = [m for group in chosen for m in _rewritten(attempt, group)]
        replaced = {m.path for group in chosen for m in group.manifests}
        kept = [m for m in attempt.existing if m.path not in replaced]
        counts = {
            "manifests-created": len(made), "manifests-kept": len(kept), "manifests-replaced": len(replaced),
            "entries-processed": sum(m.existing_files_count or 0 for m in made), "changed-partition-count": 0,
        }  # fmt: skip
        return Produced("replace", [*made, *kept], {key: str(value) for key, value in counts.items()})

    done = commit_snapshot(operations, produce, branch, {}, given.raw)
    return RewriteResult(
        len(before), len(made), size, sum(m.length for m in made), len(groups), skipped, instants=(done.instant,)
    )


def _groups(metadata: TableMetadata, manifests: Sequence[ManifestFile], options: Options) -> list[_Group]:
    spec_id = metadata.default_spec_id if options[SPEC_ID] is None else options[SPEC_ID]
    if spec_id not in metadata.specs:
        raise UsageError(
            f"there is no partition spec {spec_id}", table=metadata.location,
            todo=f"Specs: {', '.join(map(str, metadata.specs))}",
        )  # fmt: skip
    target = opt.properties(metadata.properties, options.raw)[opt.MANIFEST_SIZE]
    found = []
    for content in (0, 1):
        some = tuple(m for m in manifests if m.content == content and m.spec_id == spec_id)
        if some:
            found.append(_Group(some, target))
    return found


def _rewritten(attempt: Attempt, group: _Group) -> list[ManifestFile]:
    """New manifests with the live entries of a group. CorruptError when they are not as many as the list says."""
    found: list[ManifestFile] = []
    rows = 0
    for entries in _pieces(attempt, group):
        rows += len(entries)
        found += attempt.write(entries, group.manifests[0].spec_id, group.manifests[0].content)
    counted = [(m.added_files_count, m.existing_files_count) for m in group.manifests]
    if all(a is not None and e is not None for a, e in counted):
        wanted = sum((a or 0) + (e or 0) for a, e in counted)
        if rows != wanted:
            raise CorruptError(
                "manifests do not hold what their list says", table=attempt.metadata.location,
                why=f"they have {rows} live entries of {wanted}",
            )  # fmt: skip
    return found


def _pieces(attempt: Attempt, group: _Group) -> Iterator[pa.Table]:
    """The live entries as existing ones, ordered by partition."""
    pieces = iter_entries(attempt.files, attempt.metadata, group.manifests, stats=True)
    if group.size <= _SORTED_BYTES:
        whole = list(pieces)
        pieces = iter([pa.concat_tables(whole)] if whole else [])
    for entries in pieces:
        if not len(entries):
            continue
        place = entries.schema.get_field_index("status")
        status = pa.array(np.full(len(entries), EXISTING, np.int8))
        yield _by_partition(entries.set_column(place, "status", status))


def _by_partition(entries: pa.Table) -> pa.Table:
    """Entries in the order of their partition values, else as they were."""
    kind = entries.schema.field("partition").type
    if not kind.num_fields:
        return entries
    partition = one_chunk(entries["partition"])
    columns = {f"k{n}": column for n, column in enumerate(partition.flatten()) if not pa.types.is_null(column.type)}
    order = pa.table({**columns, "at": np.arange(len(entries))})
    if not columns:
        return entries
    return entries.take(order.sort_by([(name, "ascending") for name in (*columns, "at")])["at"])
