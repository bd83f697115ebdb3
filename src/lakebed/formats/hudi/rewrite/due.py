"""Whether a table service is due: by the commits, or the time, since it ran last.

Rules: Hudi's `CompactionTriggerStrategy`, `ScheduleCompactionActionExecutor.needCompact`, `CompactionUtils`
(what counts since when) and `ClusteringPlanActionExecutor`. A call that names no trigger is always due.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from lakebed.errors import counted
from lakebed.formats.hudi.codec.metadata import CommitMetadata
from lakebed.formats.hudi.layout import INSTANT_FORMAT
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.rewrite import options as opt
from lakebed.kernel import clock
from lakebed.kernel.options import Options

_COMMITS, _SECONDS = 5, 3600
"""Hudi's defaults, for a trigger that is named without its bounds."""


def compaction_too_early(state: TableState, options: Options) -> str:
    """Why no compaction is due, "" where one is."""
    if not any(options.given(option) for option in (opt.TRIGGER, opt.MAX_DELTA_COMMITS, opt.MAX_DELTA_SECONDS)):
        return ""
    trigger = options[opt.TRIGGER]
    if options.given(opt.MAX_DELTA_COMMITS) and options[opt.MAX_DELTA_COMMITS] is None:
        return ""
    last, first = _last_compaction(state, requested=trigger == "NUM_COMMITS_AFTER_LAST_REQUEST")
    commits = sum(e.action == "deltacommit" and e.time > last for e in state.timeline.commits)
    least, seconds = options[opt.MAX_DELTA_COMMITS] or _COMMITS, options[opt.MAX_DELTA_SECONDS]
    since = "since the last compaction" if last else "so far"
    few = (
        f"{counted(commits, 'delta commit')} {since}, fewer than {opt.MAX_DELTA_COMMITS.key}" if commits < least else ""
    )
    soon = ""
    if trigger in ("TIME_ELAPSED", "NUM_AND_TIME", "NUM_OR_TIME"):
        elapsed = _seconds_since(state, last or first)
        if elapsed < seconds:
            soon = f"{counted(max(0, int(elapsed)), 'second')} {since}, fewer than {opt.MAX_DELTA_SECONDS.key}"
    if not commits and trigger == "TIME_ELAPSED":
        return f"no delta commit {since}"
    if trigger == "TIME_ELAPSED":
        return soon
    if trigger == "NUM_AND_TIME":
        return few or soon
    return few if trigger != "NUM_OR_TIME" or soon else ""


def clustering_too_early(state: TableState, options: Options) -> str:
    """Why no clustering is due, "" where one is."""
    least = options[opt.CLUSTER_COMMITS]
    if least is None:
        return ""
    done = state.files.commits(state.timeline.commits)
    planned = [e.time for e in state.timeline.pending if e.action == "clustering"]
    last = max([*(time for time, commit in done.items() if commit.operation == "CLUSTER"), *planned], default="")
    count = sum(entry.time > last for entry in state.timeline.commits)
    since = "since the last clustering" if last else "so far"
    return f"{counted(count, 'commit')} {since}, fewer than {opt.CLUSTER_COMMITS.key}" if count < least else ""


def _last_compaction(state: TableState, requested: bool) -> tuple[str, str]:
    """The newest compaction, with `requested` also one that has not run; and the first delta commit."""
    commits = state.timeline.commits
    metadata: Mapping[str, CommitMetadata] = state.files.commits(commits)
    times = [e.time for e in commits if metadata[e.time].operation == "COMPACT"]
    if requested:
        times += [e.time for e in state.timeline.pending if e.action == "compaction"]
    return max(times, default=""), min((e.time for e in commits if e.action == "deltacommit"), default="")


def _seconds_since(state: TableState, instant: str) -> float:
    if not instant:
        return 0.0
    zone = datetime.UTC if state.config.timezone == "UTC" else None
    try:
        begun = datetime.datetime.strptime(instant[:17].ljust(17, "0"), INSTANT_FORMAT)
    except ValueError:
        return 0.0
    return (clock.moment(zone) - begun).total_seconds()
