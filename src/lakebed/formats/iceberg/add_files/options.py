"""The options of `table.add_files`: the arguments of the reference engine's procedure `add_files`, hyphenated."""

from __future__ import annotations

from collections.abc import Mapping

from lakebed.formats.iceberg import options as opt
from lakebed.kernel.options import Option, Options, OptionSet, boolean, one_of

CHECK_DUPLICATES = Option(
    "check-duplicate-files",
    boolean,
    True,
    "Refuse files that the table has already.",
    aliases=("check_duplicate_files",),
)
FORMAT = Option(
    "format",
    one_of("parquet", "orc", "avro", ""),
    "",
    "The format of files whose names do not end with .parquet, .orc or .avro.",
)
OPTIONS = OptionSet(
    (CHECK_DUPLICATES, FORMAT, *opt.PROPERTIES), "adding files", ("lakebed.storage.", "lakebed.catalog.")
)


def parsed(options: Mapping[str, object]) -> Options:
    """The options of one call. OptionError for an unknown key or an ill-typed value."""
    return OPTIONS.parse(options)
