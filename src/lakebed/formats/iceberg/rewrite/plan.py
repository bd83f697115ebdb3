"""Which data files a rewrite takes, in which groups, and why; pure, on whole columns.

Rules: Iceberg's SizeBasedFileRewritePlanner and BinPackRewriteFilePlanner. Files outside the size bounds, with too many
delete files or too many deleted rows are candidates; candidates of a partition are packed in scan order, next fit; a
group is kept when it is worth it. One rule more: a group that would only become as many files again is left alone, so
that a second run plans nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.iceberg.rewrite.options import PlanRules
from lakebed.kernel.arrays import Bools, Int64s
from lakebed.kernel.packing import next_fit
from lakebed.model.upkeep import RewriteGroup, Skipped

PLAN_SCHEMA = pa.schema(
    [
        ("file_size_in_bytes", pa.int64()),
        ("record_count", pa.int64()),
        ("spec_id", pa.int32()),
        ("partition_key", pa.dictionary(pa.int32(), pa.string())),
        ("delete_files", pa.int32()),
        ("deleted_rows", pa.int64()),
    ]
)
"""One row a live data file, in scan order. `partition_key` is the partition as a path, "" without; `delete_files`
counts all deletes that apply, `deleted_rows` those of deletion vectors and of position deletes of this one file. The
column `overlap_depth` (int32) is there when ranges of the sort key were compared."""

OTHER_SPECS = "files of other partition specs"
"""How the common group of all files of other specs is called."""
_WHOLE_TABLE = "the table"


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """Files that are rewritten together: `rows` are positions in the planner's table, in scan order.

    `repartitioned` groups hold files of other specs, so their rows may go into several partitions.
    """

    rows: Int64s
    repartitioned: bool
    about: RewriteGroup


@dataclass(frozen=True, slots=True)
class Plan:
    """The groups in the order in which they are rewritten, and each partition (or group) that is left alone."""

    groups: tuple[PlannedGroup, ...]
    skipped: tuple[Skipped, ...]


def plan_groups(files: pa.Table, rules: PlanRules) -> Plan:
    """Groups of the files of one snapshot."""
    columns = _Columns.of(files, rules)
    candidates = columns.order[columns.candidate[columns.order]]
    starts = next_fit(columns.code[candidates], columns.size[candidates], rules.max_group_bytes, rules.max_group_files)
    bins = _Bins.of(columns, candidates, starts, rules)
    skipped = _untouched(columns, rules) + _refused(columns, bins, rules)
    chosen, more = _cut(columns, bins, rules)
    groups = _groups(columns, chosen, rules)
    order = {
        "bytes-asc": lambda g: g.about.size, "bytes-desc": lambda g: -g.about.size,
        "files-asc": lambda g: g.about.files, "files-desc": lambda g: -g.about.files,
    }.get(rules.job_order)  # fmt: skip
    if order is not None:
        groups.sort(key=order)
    return Plan(tuple(groups), tuple(skipped + more))


@dataclass(frozen=True, slots=True)
class _Columns:
    """The files as numpy columns, and what makes each a candidate. `order` puts files of a partition together, in scan
    order; `code` numbers partitions, `names` names them."""

    size: Int64s
    records: Int64s
    deleted: Int64s
    code: Int64s
    names: Sequence[str]
    order: Int64s
    small: Bools
    large: Bools
    crowded: Bools
    holed: Bools
    foreign: Bools
    deep: Bools
    candidate: Bools
    depth: Int64s

    @classmethod
    def of(cls, files: pa.Table, rules: PlanRules) -> _Columns:
        size, records = _numbers(files, "file_size_in_bytes"), _numbers(files, "record_count")
        deletes, deleted = _numbers(files, "delete_files"), np.minimum(_numbers(files, "deleted_rows"), records)
        foreign = _numbers(files, "spec_id") != rules.output_spec
        code, names = _partitions(files["partition_key"], foreign)
        small, large = size < rules.sizes.least, size > rules.sizes.greatest
        crowded = deletes >= rules.delete_threshold
        holed = deleted / np.maximum(records, 1) >= rules.delete_ratio
        depth = (
            _numbers(files, "overlap_depth")
            if "overlap_depth" in files.column_names
            else np.broadcast_to(np.int64(1), len(size))
        )
        deep = depth > rules.overlap_depth if rules.overlap_depth is not None else np.zeros(len(size), bool)
        moved = foreign if rules.other_specs else np.zeros(len(size), bool)
        candidate = small | large | crowded | holed | moved | deep | rules.rewrite_all
        order = np.argsort(code, kind="stable")
        return cls(
            size, records, deleted, code, names, order, small, large, crowded, holed, foreign, deep, candidate, depth
        )


def _numbers(files: pa.Table, name: str) -> Int64s:
    found: Int64s = pc.fill_null(files[name], 0).to_numpy().astype(np.int64, copy=False)
    return found


def _partitions(keys: pa.ChunkedArray, foreign: Bools) -> tuple[Int64s, list[str]]:
    """The partitions of files as numbers in the order in which the scan meets them, and their names; files of other
    specs have one number together."""
    encoded = keys.unify_dictionaries().combine_chunks()
    names = encoded.dictionary.dictionary_encode()  # two partitions may have one name
    code = names.indices.to_numpy()[encoded.indices.to_numpy()]
    code = np.where(foreign, len(names.dictionary), code)
    first = np.full(len(names.dictionary) + 1, len(code), np.int64)
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    met = np.argsort(first, kind="stable")[: int((first < len(code)).sum())]
    number = np.empty(len(first), np.int64)
    number[met] = np.arange(len(met))
    texts = [*names.dictionary.to_pylist(), OTHER_SPECS]
    return number[code], [texts[one] or _WHOLE_TABLE for one in met.tolist()]


@dataclass(frozen=True, slots=True)
class _Bins:
    """The packed candidates: `rows` in order, a bin from each of `starts` on, and which bins are worth a rewrite."""

    rows: Int64s
    starts: Int64s
    counts: Int64s
    sizes: Int64s
    kept: Bools
    same_again: Bools

    @classmethod
    def of(cls, columns: _Columns, rows: Int64s, starts: Int64s, rules: PlanRules) -> _Bins:
        if not len(starts):
            nothing = np.zeros(0, bool)
            return cls(rows, starts, starts, starts, nothing, nothing)
        counts = np.diff(np.append(starts, len(rows)))
        sizes = np.add.reduceat(columns.size[rows], starts)
        several, any_large = counts >= 2, np.logical_or.reduceat(columns.large[rows], starts)
        sound = several & ((counts >= rules.min_input_files) | (sizes > rules.sizes.target))
        sound |= sizes > rules.sizes.greatest
        forced = columns.crowded | columns.holed | columns.deep | (columns.foreign & rules.other_specs)
        must = np.logical_or.reduceat(forced[rows], starts) | rules.rewrite_all
        moved = np.logical_or.reduceat(columns.foreign[rows], starts)
        after = rules.sizes.expected_files((sizes * rules.expansion).astype(np.int64))
        same_again = sound & ~must & ~any_large & ~moved & (after >= counts)
        return cls(rows, starts, counts, sizes, (sound | must) & ~same_again, same_again)

    def members(self, number: int) -> Int64s:
        return self.rows[self.starts[number] : self.starts[number] + self.counts[number]]


def _cut(columns: _Columns, bins: _Bins, rules: PlanRules) -> tuple[list[Int64s], list[Skipped]]:
    """The rows of the groups that are kept, cut where the call's number of files is reached."""
    numbers = np.flatnonzero(bins.kept).tolist()
    if rules.max_files is None:
        return [bins.members(number) for number in numbers], []
    chosen: list[Int64s] = []
    skipped: list[Skipped] = []
    left = rules.max_files
    for number in numbers:
        rows = bins.members(number)
        name = columns.names[columns.code[rows[0]]]
        if left <= 0:
            skipped.append(
                Skipped(name, f"max-files-to-rewrite={rules.max_files} is reached before its {len(rows)} files")
            )
            continue
        some = rows[:left]
        if len(some) < len(rows):
            alone = len(some) == 1 and not (rules.rewrite_all or _forced(columns, some, rules))
            if alone and not columns.large[some[0]]:
                skipped.append(
                    Skipped(name, f"max-files-to-rewrite={rules.max_files} leaves one small file of its group")
                )
                continue
            skipped.append(
                Skipped(
                    name, f"max-files-to-rewrite={rules.max_files} is reached after {len(some)} of {len(rows)} files"
                )
            )
        left -= len(some)
        chosen.append(some)
    return chosen, skipped


def _forced(columns: _Columns, rows: Int64s, rules: PlanRules) -> bool:
    forced = columns.crowded[rows] | columns.holed[rows] | columns.deep[rows]
    return bool(forced.any() or (rules.other_specs and columns.foreign[rows].any()))


def _groups(columns: _Columns, chosen: list[Int64s], rules: PlanRules) -> list[PlannedGroup]:
    """The groups, with what is said about each counted in whole columns."""
    if not chosen:
        return []
    rows = np.concatenate(chosen)
    starts = np.cumsum([0] + [len(some) for some in chosen[:-1]])
    sizes = np.add.reduceat(columns.size[rows], starts)
    live = 1 - columns.deleted[rows] / np.maximum(columns.records[rows], 1)
    after = (np.add.reduceat(columns.size[rows] * live, starts) * rules.expansion).astype(np.int64)
    files_after = rules.sizes.expected_files((sizes * rules.expansion).astype(np.int64))
    foreign = np.logical_or.reduceat(columns.foreign[rows], starts)
    texts = _reasons(columns, rules)
    counted = [(text, np.add.reduceat(mask[rows].astype(np.int64), starts).tolist()) for text, mask in texts]
    names = [columns.names[code] for code in columns.code[rows[starts]].tolist()]
    found = []
    for number, (some, name, size, count, size_after, moved) in enumerate(
        zip(chosen, names, sizes.tolist(), files_after.tolist(), after.tolist(), foreign.tolist(), strict=True)
    ):
        why = [f"{counts[number]} {text}" for text, counts in counted if counts[number]]
        reason = ", ".join((["rewrite-all"] if rules.rewrite_all else []) + why)
        found.append(PlannedGroup(some, moved, RewriteGroup(name, len(some), size, count, size_after, reason)))
    return found


def _reasons(columns: _Columns, rules: PlanRules) -> list[tuple[str, Bools]]:
    """What can be wrong with a file, and with which files it is."""
    sizes = rules.sizes
    found = [
        (f"under {_bytes(sizes.least)}", columns.small),
        (f"over {_bytes(sizes.greatest)}", columns.large),
        (f"with at least {rules.delete_threshold} delete files", columns.crowded),
        (f"with at least {rules.delete_ratio:.0%} of their rows deleted", columns.holed),
        (f"overlapped more than {rules.overlap_depth} deep in the sort key", columns.deep),
        (f"of another partition spec than {rules.output_spec}", columns.foreign),
    ]
    return [(text, mask) for text, mask in found if mask.any()]


def _untouched(columns: _Columns, rules: PlanRules) -> list[Skipped]:
    """Partitions without a candidate."""
    count = len(columns.names)
    files = np.bincount(columns.code, minlength=count)
    wanted = np.bincount(columns.code[columns.candidate], minlength=count)
    least, greatest = _bytes(rules.sizes.least), _bytes(rules.sizes.greatest)
    text = f"between {least} and {greatest}, with few deletes"
    return [
        Skipped(columns.names[number], f"its {_files(int(files[number]))} {_are(int(files[number]))} well: {text}")
        for number in np.flatnonzero((wanted == 0) & (files > 0)).tolist()
    ]


def _refused(columns: _Columns, bins: _Bins, rules: PlanRules) -> list[Skipped]:
    """Candidates that are not worth a rewrite, for each partition and reason."""
    out = np.flatnonzero(~bins.kept)
    if not len(out):
        return []
    kinds = np.where(bins.same_again[out], 0, np.where(bins.counts[out] == 1, 1, 2))
    keys, place = np.unique(columns.code[bins.rows[bins.starts[out]]] * 3 + kinds, return_inverse=True)
    groups, files = np.bincount(place), np.bincount(place, bins.counts[out]).astype(np.int64)
    sizes = np.bincount(place, bins.sizes[out]).astype(np.int64)
    few = f"fewer than min-input-files={rules.min_input_files} and not over the target of {_bytes(rules.sizes.target)}"
    whys = ("a rewrite would make as many files of that size again", "one small file alone stays as it is", few)
    found = []
    for key, parts, count, size in zip(keys.tolist(), groups.tolist(), files.tolist(), sizes.tolist(), strict=True):
        what = f"{_files(count)} to improve, {_bytes(size)} together"
        split = f", in {parts} groups" if parts > 1 else ""
        found.append(Skipped(columns.names[key // 3], f"{what}{split}: {whys[key % 3]}"))
    return found


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _bytes(size: int) -> str:
    """A size for people."""
    amount = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
