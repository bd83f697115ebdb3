"""Which partitions a table service looks at: by day, by name, by a pattern.

Rules: Hudi's `DayBasedCompactionStrategy`, `BoundedPartitionAwareCompactionStrategy`,
`UnBoundedPartitionAwareCompactionStrategy` and `PartitionRegexBasedCompactionStrategy`; for clustering
`ClusteringPlanPartitionFilter` and `PartitionAwareClusteringPlanStrategy`. A day is a path such as 2024/05/01 or
2024-05-01, with or without the columns' names.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence

from lakebed.errors import UsageError
from lakebed.formats.hudi.rewrite import options as opt
from lakebed.kernel import clock
from lakebed.kernel.options import Options

BY_PARTITION = ("DayBased", "BoundedPartitionAware", "UnBoundedPartitionAware", "PartitionRegexBased")
"""The compaction strategies that choose partitions, and take all of their file groups."""
_DAY = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})")
_HOURS = 24


def for_compaction(strategy: str, partitions: Sequence[str], options: Options) -> list[str]:
    """The partitions that a strategy takes, in the order in which it takes them. UsageError for one that is no day
    where the strategy asks for days."""
    if strategy == "PartitionRegexBased":
        pattern = options[opt.PARTITION_REGEX]
        if not pattern:
            raise UsageError(f"the strategy {strategy} needs a pattern", todo=f"Give {opt.PARTITION_REGEX.key}")
        return [path for path in partitions if re.search(pattern, path)]
    newest_first = sorted(partitions, key=_day, reverse=True)
    days = options[opt.TARGET_PARTITIONS]
    if strategy == "DayBased":
        return newest_first[:days]
    earliest = clock.earlier(clock.moment(), days=days).date()
    if strategy == "BoundedPartitionAware":
        return [path for path in newest_first if _day(path) >= earliest]
    return [path for path in newest_first if _day(path) < earliest]


def for_clustering(partitions: Sequence[str], options: Options) -> list[str]:
    """The partitions that a clustering looks at."""
    wanted = sorted(partitions)
    named = [path.strip() for path in options[opt.SELECTED].split(",") if path.strip()]
    if named:
        wanted = [path for path in wanted if path in named]
    if options[opt.CLUSTER_REGEX]:
        wanted = [path for path in wanted if re.fullmatch(options[opt.CLUSTER_REGEX], path)]
    mode = _FILTERS.get(options[opt.PLAN_STRATEGY], "") or options[opt.FILTER]
    if mode == "RECENT_DAYS":
        skip = options[opt.SKIP_LATEST]
        return sorted(wanted, reverse=True)[skip : skip + options[opt.LOOKBACK]]
    if mode == "SELECTED_PARTITIONS":
        return [path for path in wanted if options[opt.BEGIN] <= path <= options[opt.END]]
    if mode == "DAY_ROLLING":
        hour = clock.moment().hour
        return [path for number, path in enumerate(wanted) if number % _HOURS == hour]
    return wanted


_FILTERS = {"RecentDays": "RECENT_DAYS", "SelectedPartitions": "SELECTED_PARTITIONS"}
"""Plan strategies that are filters, as older releases name them."""


def _day(path: str) -> datetime.date:
    plain = "/".join(part.rpartition("=")[2] for part in path.split("/"))
    match = _DAY.match(plain)
    try:
        assert match is not None
        return datetime.date(*map(int, match.groups()))
    except (AssertionError, ValueError):
        raise UsageError(
            f"the partition {path!r} is not a day such as 2024/05/01",
            why=f"{opt.STRATEGY.key} asks for partitions by day",
            todo="Choose another strategy",
        ) from None
