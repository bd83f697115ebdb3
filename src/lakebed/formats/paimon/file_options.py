"""The options of what is known of data files: statistics in manifests and file indexes, with the keys and defaults of
Paimon's CoreOptions.

They are options of a table like those of `options`, which includes them.
"""

from __future__ import annotations

from typing import Any

from lakebed.kernel.options import Option, at_least, boolean, memory_size

STATS_MODE = Option(
    "metadata.stats-mode",
    str,
    "truncate(16)",
    "Statistics in manifests: none, counts, full or truncate(N); of one column by `fields.NAME.stats-mode`.",
)
STATS_DENSE = Option(
    "metadata.stats-dense-store", boolean, True, "Leave columns without statistics out of those of a file."
)
STATS_FIRST = Option(
    "metadata.stats-keep-first-n-columns",
    at_least(-1),
    -1,
    "How many columns get statistics, from the first on, besides those with a mode of their own; -1: all.",
)
DROP_DELETED_STATS = Option(
    "manifest.delete-file-drop-stats", boolean, False, "Manifests keep no statistics of deleted files."
)
FILE_INDEX_READ = Option(
    "file-index.read.enabled", boolean, True, "Ask the indexes of data files which of them cannot match a condition."
)
FILE_INDEX_THRESHOLD = Option(
    "file-index.in-manifest-threshold",
    memory_size,
    500,
    "Bytes of a data file's indexes up to which they are stored in the manifest.",
)

FILE_OPTIONS: tuple[Option[Any], ...] = tuple(value for value in list(vars().values()) if isinstance(value, Option))
"""All options of this module."""
