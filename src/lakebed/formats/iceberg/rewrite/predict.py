"""How many files of older partition specs become under the output spec, and how many if they kept their own spec."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from pyiceberg.transforms import BucketTransform, VoidTransform

from lakebed.errors import counted
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.rewrite.options import OUTPUT_SPEC, PlanRules
from lakebed.formats.iceberg.rewrite.plan import Plan
from lakebed.formats.iceberg.rewrite.scan import LiveFiles
from lakebed.kernel.arrays import to_numpy


def partition_notes(live: LiveFiles, metadata: TableMetadata, plan: Plan, rules: PlanRules) -> list[str]:
    """One sentence per older spec whose files are spread over the partitions of the output spec."""
    notes = []
    for group in plan.groups:
        if group.repartitioned:
            files = live.table.take(group.rows)
            for spec_id in pc.unique(files["spec_id"]).to_pylist():
                of_spec = files.filter(pc.equal(files["spec_id"], spec_id))
                codes = to_numpy(of_spec["partition_key"].combine_chunks().indices)
                partitions = np.unique(codes, return_inverse=True)[1]
                sizes = np.bincount(partitions, to_numpy(of_spec["file_size_in_bytes"]))
                kept = int(rules.sizes.expected_files(sizes.astype(np.int64)).sum())
                new = _new_partitions(metadata, spec_id, rules.output_spec)
                rows = int(pc.sum(of_spec["record_count"]).as_py() or 0)
                of = f"of partition spec {spec_id}"
                spread = counted(len(of_spec), f"file {of} is", f"files {of} are")
                notes.append(
                    f"{spread} spread over spec {rules.output_spec}: "
                    f"{_count(kept, len(sizes), new, rows)}. With {OUTPUT_SPEC.key}={spec_id} they would become about "
                    f"{kept}"
                )
    return list(dict.fromkeys(notes))


def _count(kept: int, partitions: int, new: int | None, rows: int) -> str:
    """The number of new files, as text, as far as the specs tell."""
    if new is None:
        return f"one file or more for each new partition that their rows meet, {partitions} or more"
    return f"about {counted(max(kept, min(rows, partitions * new)), 'file')}"


def _new_partitions(metadata: TableMetadata, old: int, new: int) -> int | None:
    """How many partitions of the new spec one partition of the old spec can fall into; None when only rows tell."""
    old_fields = {(field.source_id, str(field.transform)) for field in metadata.specs[old].fields}
    identities = {source for source, transform in old_fields if transform == "identity"}
    count = 1
    for field in metadata.specs[new].fields:
        if isinstance(field.transform, VoidTransform) or field.source_id in identities:
            continue
        if (field.source_id, str(field.transform)) in old_fields:
            continue
        if not isinstance(field.transform, BucketTransform):
            return None
        count *= field.transform.num_buckets
    return count
