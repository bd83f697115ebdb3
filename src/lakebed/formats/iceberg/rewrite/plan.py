"""Which data files a rewrite takes, in which groups, and why. Pure, on whole columns.

Rules: Iceberg's SizeBasedFileRewritePlanner and BinPackRewriteFilePlanner. Candidates are files outside the size bounds
and files with too many delete files or too many deleted rows. The candidates of a partition are packed in scan order,
next fit, and a group is rewritten when it is worth it. lakebed adds one rule: a group that would become as many files
again is left alone, so that a second run plans nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.errors import counted
from lakebed.formats.iceberg.rewrite.options import PlanRules
from lakebed.formats.iceberg.rewrite.packing import next_fit
from lakebed.kernel.arrays import Bools, Int64s, filled, to_numpy
from lakebed.model.upkeep import RewriteGroup, RewriteResult, Skipped

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
"""The planner's input: one row per live data file, in scan order.

`partition_key` is the partition as a path, "" for an unpartitioned table. `delete_files` counts all deletes that apply,
`deleted_rows` the rows of deletion vectors and of position deletes of this one file. The column `delete_bytes` (int64)
follows when deletes are weighed, `overlap_depth` (int32) when ranges of the sort key were compared.
"""
DELETE_BYTES = "delete_bytes"
"""The column with the bytes of the deletes that apply to a file and would not to a rewritten one."""

OTHER_SPECS = "files of other partition specs"
"""The name of the group of all files of other specs."""
_WHOLE_TABLE = "the table"


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """Files that are rewritten together. `rows` are their rows in the planner's table, in scan order.

    A `repartitioned` group has files of other specs, so its rows may go into several partitions.
    """

    rows: Int64s
    repartitioned: bool
    about: RewriteGroup


@dataclass(frozen=True, slots=True)
class Plan:
    """The groups in the order in which they are rewritten, and why other partitions and groups are left alone."""

    groups: tuple[PlannedGroup, ...]
    skipped: tuple[Skipped, ...]
    saved: int = 0
    """The bytes that each read spares after the rewrite, where deletes are weighed."""

    def predicted(self, notes: Sequence[str], dry_run: bool = False) -> RewriteResult:
        """The result of a rewrite that does what was planned. A dry run returns it."""
        groups = tuple(group.about for group in self.groups)
        return RewriteResult(
            sum(group.files for group in groups),
            sum(group.files_after for group in groups),
            sum(group.size for group in groups),
            sum(group.size_after for group in groups),
            len(groups),
            self.skipped,
            dry_run,
            groups,
            notes=(*notes, *([f"each read spares {_bytes(self.saved)} after it"] if self.saved else [])),
        )


def plan_groups(files: pa.Table, rules: PlanRules) -> Plan:
    """Group the files of one snapshot. `files` has the columns of `PLAN_SCHEMA`."""
    columns = _Columns.of(files, rules)
    candidates = columns.order[columns.candidate[columns.order]]
    starts = next_fit(columns.code[candidates], columns.size[candidates], rules.max_group_bytes, rules.max_group_files)
    bins = _Bins.of(columns, candidates, starts, rules)
    skipped = _without_candidates(columns, rules) + _not_worth_it(columns, bins, rules)
    chosen, left_out = _up_to_max_files(columns, bins, rules)
    groups = _groups(columns, chosen, rules)
    order = {
        "bytes-asc": lambda g: g.about.size,
        "bytes-desc": lambda g: -g.about.size,
        "files-asc": lambda g: g.about.files,
        "files-desc": lambda g: -g.about.files,
    }.get(rules.job_order)
    if order is not None:
        groups.sort(key=order)
    saved = sum(int(columns.saved[rows].sum()) for rows in chosen)
    return Plan(tuple(groups), tuple(skipped + left_out), saved)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The files as numpy columns, and what makes each a candidate.

    `code` numbers the partitions, `names` are their names. `order` sorts the files by partition, then in scan order.
    `many_deletes` files have too many delete files, `many_deleted_rows` too many deleted rows, `foreign` ones another
    spec, and `overlapping` ones too deep an overlap in the sort key. `saved` are the bytes that a rewrite of the file
    spares each read, where deletes are weighed, and `costly` files have them back within the reads that are allowed.
    """

    size: Int64s
    records: Int64s
    deleted: Int64s
    code: Int64s
    names: Sequence[str]
    order: Int64s
    small: Bools
    large: Bools
    many_deletes: Bools
    many_deleted_rows: Bools
    saved: Int64s
    costly: Bools
    foreign: Bools
    overlapping: Bools
    candidate: Bools

    @classmethod
    def of(cls, files: pa.Table, rules: PlanRules) -> _Columns:
        size, records = _numbers(files, "file_size_in_bytes"), _numbers(files, "record_count")
        deletes, deleted = _numbers(files, "delete_files"), np.minimum(_numbers(files, "deleted_rows"), records)
        foreign = _numbers(files, "spec_id") != rules.output_spec
        code, names = _partitions(files["partition_key"], foreign)
        small, large = size < rules.sizes.least, size > rules.sizes.greatest
        many_deletes = deletes >= rules.delete_threshold
        many_deleted_rows = deleted / np.maximum(records, 1) >= rules.delete_ratio
        overlapping = np.zeros(len(size), bool)
        if rules.overlap_depth is not None and "overlap_depth" in files.column_names:
            overlapping = _numbers(files, "overlap_depth") > rules.overlap_depth
        moved = foreign if rules.other_specs else np.zeros(len(size), bool)
        saved, costly = _weighed(files, size, records, deleted, rules)
        candidate = small | large | many_deletes | many_deleted_rows | moved | overlapping | rules.rewrite_all
        if rules.payback_reads is not None:
            candidate = costly | rules.rewrite_all
        order = np.argsort(code, kind="stable")
        return cls(
            size, records, deleted, code, names, order, small, large, many_deletes, many_deleted_rows, saved,
            costly, foreign, overlapping, candidate,
        )  # fmt: skip

    def forced(self, rules: PlanRules) -> Bools:
        """Which files are rewritten whatever their size and group."""
        if rules.payback_reads is not None:
            return self.costly
        return self.many_deletes | self.many_deleted_rows | self.overlapping | (self.foreign & rules.other_specs)


def _weighed(files: pa.Table, size: Int64s, records: Int64s, deleted: Int64s, rules: PlanRules) -> tuple[Int64s, Bools]:
    """The bytes that a rewrite of each file spares a read, and whether that is worth it.

    A read takes the deleted rows and the deletes that apply. A rewrite reads the file and these deletes once, and
    writes the rows that are left.
    """
    if rules.payback_reads is None:
        return np.zeros(len(size), np.int64), np.zeros(len(size), bool)
    dead = (size * (deleted / np.maximum(records, 1))).astype(np.int64)
    deletes = _numbers(files, DELETE_BYTES)
    saved = dead + deletes
    return saved, (saved > 0) & (saved * float(rules.payback_reads) >= size + deletes + (size - dead))


def _numbers(files: pa.Table, name: str) -> Int64s:
    numbers: Int64s = to_numpy(filled(files[name], 0)).astype(np.int64, copy=False)
    return numbers


def _partitions(keys: pa.ChunkedArray, foreign: Bools) -> tuple[Int64s, list[str]]:
    """The partition of each file as a number, and the name of each number.

    Numbers follow the order of the scan. Files of other specs share one number.
    """
    encoded = keys.unify_dictionaries().combine_chunks()
    names = encoded.dictionary.dictionary_encode()  # two partitions may have one name
    code = to_numpy(names.indices)[to_numpy(encoded.indices)]
    code = np.where(foreign, len(names.dictionary), code)
    first = np.full(len(names.dictionary) + 1, len(code), np.int64)
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    met = np.argsort(first, kind="stable")[: int((first < len(code)).sum())]
    number = np.empty(len(first), np.int64)
    number[met] = np.arange(len(met))
    texts = [*names.dictionary.to_pylist(), OTHER_SPECS]
    return number[code], [texts[code] or _WHOLE_TABLE for code in met.tolist()]


@dataclass(frozen=True, slots=True)
class _Bins:
    """The packed candidates. `rows` are their rows in order, `starts` says where each bin begins in them.

    `kept` bins are worth a rewrite. `same_again` bins would become as many files again.
    """

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
        enough = several & ((counts >= rules.min_input_files) | (sizes > rules.sizes.target))
        enough |= sizes > rules.sizes.greatest
        forced = np.logical_or.reduceat(columns.forced(rules)[rows], starts) | rules.rewrite_all
        moved = np.logical_or.reduceat(columns.foreign[rows], starts)
        after = rules.sizes.expected_files((sizes * rules.expansion).astype(np.int64))
        same_again = enough & ~forced & ~any_large & ~moved & (after >= counts)
        return cls(rows, starts, counts, sizes, (enough | forced) & ~same_again, same_again)

    def rows_of(self, number: int) -> Int64s:
        """The rows of one bin."""
        return self.rows[self.starts[number] : self.starts[number] + self.counts[number]]


def _up_to_max_files(columns: _Columns, bins: _Bins, rules: PlanRules) -> tuple[list[Int64s], list[Skipped]]:
    """The rows of the groups to rewrite, up to `max_files` files, and why other groups are left out."""
    numbers = np.flatnonzero(bins.kept).tolist()
    if rules.max_files is None:
        return [bins.rows_of(number) for number in numbers], []
    forced = columns.forced(rules)
    chosen: list[Int64s] = []
    skipped: list[Skipped] = []
    left = rules.max_files
    for number in numbers:
        all_rows = bins.rows_of(number)
        rows = all_rows[: max(0, left)]
        why = ""
        if not len(rows):
            why = f"is reached before its {counted(len(all_rows), 'file')}"
        elif len(rows) < len(all_rows):
            lone = len(rows) == 1 and not (rules.rewrite_all or forced[rows[0]] or columns.large[rows[0]])
            why = f"is reached after {len(rows)} of {counted(len(all_rows), 'file')}"
            if lone:
                rows, why = rows[:0], "leaves one small file of its group"
        if why:
            name = columns.names[columns.code[all_rows[0]]]
            skipped.append(Skipped(name, f"max-files-to-rewrite={rules.max_files} {why}"))
        if len(rows):
            left -= len(rows)
            chosen.append(rows)
    return chosen, skipped


def _groups(columns: _Columns, chosen: list[Int64s], rules: PlanRules) -> list[PlannedGroup]:
    """The groups with the figures and the reason of each, counted in whole columns."""
    if not chosen:
        return []
    rows = np.concatenate(chosen)
    starts = np.cumsum([0, *map(len, chosen[:-1])])
    sizes = np.add.reduceat(columns.size[rows], starts)
    live = 1 - columns.deleted[rows] / np.maximum(columns.records[rows], 1)
    after = (np.add.reduceat(columns.size[rows] * live, starts) * rules.expansion).astype(np.int64)
    files_after = rules.sizes.expected_files((sizes * rules.expansion).astype(np.int64))
    foreign = np.logical_or.reduceat(columns.foreign[rows], starts)
    texts = _reasons(columns, rules)
    counted = [(text, np.add.reduceat(mask[rows].astype(np.int64), starts).tolist()) for text, mask in texts]
    names = [columns.names[code] for code in columns.code[rows[starts]].tolist()]
    groups = []
    for number, (own_rows, name, size, count, size_after, moved) in enumerate(
        zip(chosen, names, sizes.tolist(), files_after.tolist(), after.tolist(), foreign.tolist(), strict=True)
    ):
        reasons = [f"{counts[number]} {text}" for text, counts in counted if counts[number]]
        reason = ", ".join((["rewrite-all"] if rules.rewrite_all else []) + reasons)
        about = RewriteGroup(name, len(own_rows), size, count, size_after, reason)
        groups.append(PlannedGroup(own_rows, moved, about))
    return groups


def _reasons(columns: _Columns, rules: PlanRules) -> list[tuple[str, Bools]]:
    """The reasons for a rewrite as text, and which files have each."""
    sizes = rules.sizes
    reasons = [
        (f"under {_bytes(sizes.least)}", columns.small),
        (f"over {_bytes(sizes.greatest)}", columns.large),
        (f"with at least {counted(rules.delete_threshold, 'delete file')}", columns.many_deletes),
        (f"with at least {rules.delete_ratio:.0%} of their rows deleted", columns.many_deleted_rows),
        (f"whose deletes cost more in {rules.payback_reads} reads than a rewrite", columns.costly),
        (f"overlapped more than {rules.overlap_depth} deep in the sort key", columns.overlapping),
        (f"of another partition spec than {rules.output_spec}", columns.foreign),
    ]
    return [(text, mask) for text, mask in reasons if mask.any()]


def _without_candidates(columns: _Columns, rules: PlanRules) -> list[Skipped]:
    """Why partitions without a candidate are left alone."""
    count = len(columns.names)
    files = np.bincount(columns.code, minlength=count)
    candidates = np.bincount(columns.code[columns.candidate], minlength=count)
    least, greatest = _bytes(rules.sizes.least), _bytes(rules.sizes.greatest)
    text = f"between {least} and {greatest}, with few deletes"
    if rules.payback_reads is not None:
        few = f"deletes of its {{}} cost less in {rules.payback_reads} reads than a rewrite"
        return [
            Skipped(columns.names[number], few.format(counted(int(files[number]), "file")))
            for number in np.flatnonzero((candidates == 0) & (files > 0)).tolist()
        ]
    return [
        Skipped(columns.names[number], f"its {_have_good_size(int(files[number]))}: {text}")
        for number in np.flatnonzero((candidates == 0) & (files > 0)).tolist()
    ]


def _not_worth_it(columns: _Columns, bins: _Bins, rules: PlanRules) -> list[Skipped]:
    """Why candidates are not worth a rewrite, per partition and reason."""
    out = np.flatnonzero(~bins.kept)
    if not len(out):
        return []
    reasons = np.where(bins.same_again[out], 0, np.where(bins.counts[out] == 1, 1, 2))
    keys, place = np.unique(columns.code[bins.rows[bins.starts[out]]] * 3 + reasons, return_inverse=True)
    groups, files = np.bincount(place), np.bincount(place, bins.counts[out]).astype(np.int64)
    sizes = np.bincount(place, bins.sizes[out]).astype(np.int64)
    few = f"fewer than min-input-files={rules.min_input_files} and not over the target of {_bytes(rules.sizes.target)}"
    texts = ("a rewrite would make as many files of that size again", "one small file alone stays as it is", few)
    skipped = []
    for key, parts, count, size in zip(keys.tolist(), groups.tolist(), files.tolist(), sizes.tolist(), strict=True):
        what = f"{counted(count, 'file')} to improve, {_bytes(size)} together"
        split = f", in {counted(parts, 'group')}" if parts > 1 else ""
        skipped.append(Skipped(columns.names[key // 3], f"{what}{split}: {texts[key % 3]}"))
    return skipped


def _have_good_size(count: int) -> str:
    return counted(count, "file already has a good size", "files already have a good size")


def _bytes(size: int) -> str:
    """A size as text, in the unit that fits."""
    amount = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
