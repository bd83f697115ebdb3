"""The options of a rewrite of data files.

Keys, defaults and ranges are those of Iceberg's `rewrite_data_files` (RewriteDataFiles, SizeBasedFileRewritePlanner,
BinPackRewriteFilePlanner and the shuffling runners). Doris' spellings, snake case and camel case are accepted too.
lakebed's own keys begin with `lakebed.rewrite.`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from lakebed.errors import OptionError
from lakebed.formats.iceberg.write.file_sizes import DEFAULT_TARGET, FileSizes
from lakebed.kernel.options import Option, Options, OptionSet, at_least, boolean, decimal_number, memory_size, one_of

TABLE_TARGET = "write.target-file-size-bytes"
"""The table property that holds when the call names no target."""
JOB_ORDERS = ("none", "bytes-asc", "bytes-desc", "files-asc", "files-desc")


def _spellings(key: str) -> tuple[str, ...]:
    words = key.split("-")
    return "_".join(words), words[0] + "".join(word.capitalize() for word in words[1:])


def _option(
    key: str, parse: Callable[[str], Any], default: Any, doc: str, expected: str = "", *more: str
) -> Option[Any]:
    return Option(key, parse, default, doc, expected, (*_spellings(key), *more))


def _checked(parse: Callable[[str], Any], holds: Callable[[Any], bool]) -> Callable[[str], Any]:
    def checked(text: str) -> Any:
        value = parse(text)
        if not holds(value):
            raise ValueError(text)
        return value

    return checked


def _size(least: int) -> Callable[[str], int]:
    return _checked(memory_size, lambda size: size >= least)


_positive = _checked(decimal_number, lambda number: 0 < number < float("inf"))
_strategy = one_of("binpack", "sort", "zorder")
_SIZE = "a size of at least 1 byte, such as 512 mb"

STRATEGY = _option(
    "strategy", _strategy, "", "How rows are ordered: binpack, sort or zorder; sort when an order is given."
)
SORT_ORDER = _option(
    "sort-order",
    str,
    "",
    "The sort order, as `a, b desc nulls last` or `zorder(a, b)`; by default the table's.",
)
TARGET = _option(
    "target-file-size-bytes",
    _size(1),
    None,
    "The size of new files on disk; by default the table's write.target-file-size-bytes, else 512 mb.",
    _SIZE,
    "iceberg_write_target_file_size_bytes",
)
MIN_SIZE = _option(
    "min-file-size-bytes",
    _size(0),
    None,
    "Smaller files are rewritten; by default 75 % of the target.",
    "a size of at least 0 bytes",
)
MAX_SIZE = _option(
    "max-file-size-bytes", _size(1), None, "Larger files are rewritten; by default 180 % of the target.", _SIZE
)
MIN_INPUT_FILES = _option("min-input-files", at_least(1), 5, "How many files make a group worth a rewrite.")
MAX_GROUP_SIZE = _option(
    "max-file-group-size-bytes",
    _size(1),
    100 << 30,
    "Size of one group in bytes, at most. A group is rewritten, and fails, as a whole.",
    _SIZE,
)
MAX_GROUP_FILES = _option(
    "max-file-group-input-files", at_least(1), 2**63 - 1, "Number of files in one group, at most."
)
DELETE_THRESHOLD = _option(
    "delete-file-threshold",
    at_least(0),
    2**31 - 1,
    "A file with this many delete files is rewritten whatever its size.",
)
DELETE_RATIO = _option(
    "delete-ratio-threshold",
    _checked(decimal_number, lambda ratio: 0 < ratio <= 1),
    0.3,
    "A file with this share of deleted rows is rewritten whatever its size.",
    "a number above 0 and at most 1",
)
REWRITE_ALL = _option("rewrite-all", boolean, False, "Rewrite every file, whatever its size.")
MAX_FILES = _option("max-files-to-rewrite", at_least(1), None, "Plan at most this many files.")
JOB_ORDER = _option("rewrite-job-order", one_of(*JOB_ORDERS), "none", "Which groups are rewritten first.")
OUTPUT_SPEC = _option("output-spec-id", int, None, "The partition spec of new files; by default the current one.")
CONCURRENT = _option("max-concurrent-file-group-rewrites", at_least(1), 5, "Groups rewritten at the same time.")
PARTIAL = _option("partial-progress.enabled", boolean, False, "Commit groups as they end, in several commits.")
MAX_COMMITS = _option(
    "partial-progress.max-commits", at_least(1), 10, "Number of commits of a rewrite with partial progress, at most."
)
MAX_FAILED_COMMITS = _option(
    "partial-progress.max-failed-commits",
    at_least(0),
    None,
    "How many commits may fail before a rewrite with partial progress fails; by default as many as max-commits.",
)
STARTING_SEQUENCE = _option(
    "use-starting-sequence-number",
    boolean,
    True,
    "Give new files the sequence number of the snapshot that was read, so equality deletes made meanwhile apply.",
)
DANGLING = _option(
    "remove-dangling-deletes",
    boolean,
    False,
    "Remove the delete files that no data file needs any more, in the same commit.",
)
COMPRESSION_FACTOR = _option(
    "compression-factor",
    _positive,
    1.0,
    "Size of the output divided by size of the input, if you know it.",
    "a number above 0",
)
SHUFFLE_PARTITIONS = _option(
    "shuffle-partitions-per-file", at_least(1), 1, "Accepted without effect: each file is sorted as a whole."
)
VAR_LENGTH = _option("var-length-contribution", at_least(1), 8, "Bytes of a text or binary column in a z-order value.")
MAX_OUTPUT = _option("max-output-size", at_least(1), 2**31 - 1, "Size of a z-order value in bytes, at most.")
BRANCH = _option("branch", str, "main", "The branch to rewrite.")

CONCAT = Option(
    "lakebed.rewrite.concat-min-row-group-bytes",
    memory_size,
    1 << 20,
    "Join files byte for byte, without decoding, when their row groups have at least this size on average.",
    aliases=("concat-min-row-group-bytes",),
)
OTHER_SPECS = Option(
    "lakebed.rewrite.other-specs",
    boolean,
    False,
    "Rewrite files of other partition specs whatever their size, and leave files of the output spec that are good.",
)
OVERLAP = Option(
    "lakebed.rewrite.max-overlap-depth",
    at_least(1),
    None,
    "Rewrite files whose ranges of the first sort column overlap deeper than this (1: no overlap at all).",
)
PAYBACK = Option(
    "lakebed.rewrite.payback-reads",
    at_least(1),
    None,
    "Rewrite only files whose deletes cost more in this many reads than a rewrite of the file does.",
)
KEEP_ORDER = Option(
    "lakebed.rewrite.keep-table-order",
    boolean,
    True,
    "Sort the files of a bin-pack by the table's sort order, if it has one.",
)

OPTIONS = OptionSet(
    (
        STRATEGY, SORT_ORDER, TARGET, MIN_SIZE, MAX_SIZE, MIN_INPUT_FILES, MAX_GROUP_SIZE, MAX_GROUP_FILES,
        DELETE_THRESHOLD, DELETE_RATIO, REWRITE_ALL, MAX_FILES, JOB_ORDER, OUTPUT_SPEC, CONCURRENT, PARTIAL,
        MAX_COMMITS, MAX_FAILED_COMMITS, STARTING_SEQUENCE, DANGLING, COMPRESSION_FACTOR, SHUFFLE_PARTITIONS,
        VAR_LENGTH, MAX_OUTPUT, BRANCH, CONCAT, OTHER_SPECS, OVERLAP, PAYBACK,
        KEEP_ORDER,
    ),
    "a rewrite of Iceberg data files",
    prefixes=("lakebed.storage.", "lakebed.catalog."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlanRules:
    """The rules of the planner. `output_spec` is the id of the partition spec of new files."""

    sizes: FileSizes
    output_spec: int = 0
    min_input_files: int = 5
    max_group_bytes: int = 100 << 30
    max_group_files: int = 2**63 - 1
    delete_threshold: int = 2**31 - 1
    delete_ratio: float = 0.3
    rewrite_all: bool = False
    max_files: int | None = None
    job_order: str = "none"
    other_specs: bool = False
    overlap_depth: int | None = None
    payback_reads: int | None = None
    expansion: float = 1.0
    """Size of the output divided by size of the input, as far as it is known."""


def parse(given: Mapping[str, object]) -> Options:
    """The typed options of a call. OptionError for an unknown key or an ill-typed value."""
    return OPTIONS.parse(given)


def plan_rules(options: Options, properties: Mapping[str, str], current_spec: int, specs: Collection[int]) -> PlanRules:
    """The planner's rules for a call on a table with these properties and partition specs.

    OptionError when sizes are out of order, or the table does not have the spec.
    """
    target = options[TARGET]
    if target is None:
        target = _table_target(properties)
    sizes = checked_sizes(FileSizes.around(target, options[MIN_SIZE], options[MAX_SIZE]))
    spec = current_spec if options[OUTPUT_SPEC] is None else options[OUTPUT_SPEC]
    if spec not in specs:
        ids = ", ".join(map(str, sorted(specs)))
        raise OptionError.ill_typed(OUTPUT_SPEC.key, spec, f"a partition spec of the table: {ids}")
    if options.given(PAYBACK):
        for other in (DELETE_THRESHOLD, DELETE_RATIO, REWRITE_ALL, OTHER_SPECS, OVERLAP):
            if options.given(other):
                raise OptionError(
                    f"{other.key} and {PAYBACK.key} are given", key=other.key,
                    why=f"with {PAYBACK.key} only the cost of deletes chooses files", todo="Give one of them",
                )  # fmt: skip
    return PlanRules(
        sizes, spec, options[MIN_INPUT_FILES], options[MAX_GROUP_SIZE], options[MAX_GROUP_FILES],
        options[DELETE_THRESHOLD], options[DELETE_RATIO], options[REWRITE_ALL], options[MAX_FILES], options[JOB_ORDER],
        options[OTHER_SPECS], options[OVERLAP], options[PAYBACK], options[COMPRESSION_FACTOR],
    )  # fmt: skip


def checked_sizes(sizes: FileSizes) -> FileSizes:
    """Return the sizes. OptionError if they are out of order."""
    if sizes.least >= sizes.target:
        raise OptionError.ill_typed(MIN_SIZE.key, sizes.least, f"less than the target of {sizes.target} bytes")
    if sizes.greatest <= sizes.target:
        raise OptionError.ill_typed(MAX_SIZE.key, sizes.greatest, f"more than the target of {sizes.target} bytes")
    return sizes


def _table_target(properties: Mapping[str, str]) -> int:
    text = properties.get(TABLE_TARGET, str(DEFAULT_TARGET))
    if not re.fullmatch(r"\s*\d+\s*", text) or int(text) < 1:
        raise OptionError.ill_typed(TABLE_TARGET, text, "a table property with a number of bytes above 0")
    return int(text)
