"""How many commits an archival keeps: the bounds that were asked for, and those that are used.

What the cleaner retains raises both bounds, so that a clean can always be planned from the active timeline. The
caller's options win over the table's properties, and those over the defaults.

Rules: Hudi's `ArchivalUtils.getMinAndMaxInstantsToKeep` and `CleanerUtils.getEarliestCommitToRetain`.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakebed.errors import OptionError
from lakebed.formats.hudi.archive.options import (
    ARCHIVE,
    BEYOND_SAVEPOINT,
    CLEANER_POLICY,
    COMMITS_RETAINED,
    COMPACTION_TRIGGER,
    HOURS_RETAINED,
    KEEP_MAX,
    KEEP_MIN,
    MAX_DELTA_COMMITS,
    MIN_INSTANTS,
)
from lakebed.formats.hudi.archive.pending import how_to_end, never_ended
from lakebed.formats.hudi.archive.state_files import ActiveInstant
from lakebed.formats.hudi.config import PROPERTIES, TableConfig
from lakebed.formats.hudi.layout import INSTANT_FORMAT
from lakebed.kernel import clock
from lakebed.kernel.options import Option, Options

_SHOWN: tuple[Option[object], ...] = (
    BEYOND_SAVEPOINT,
    CLEANER_POLICY,
    COMMITS_RETAINED,
    HOURS_RETAINED,
    COMPACTION_TRIGGER,
    MAX_DELTA_COMMITS,
    MIN_INSTANTS,
)  # type: ignore[assignment]  # an Option is invariant in its type


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds that are used: archival begins above `most` commits, and `least` of them stay.

    Where the cleaner raises both, they are `raised` by so many commits; `reason` says why, and `remedy` how to lower
    them again.
    """

    least: int
    most: int
    raised: int = 0
    reason: str = ""
    remedy: str = ""


def check_given(given: Mapping[str, object]) -> Options:
    """The caller's options, typed. Nothing is read; raises OptionError for what is wrong whatever the table says."""
    options = ARCHIVE.parse(given)
    if options.given(KEEP_MAX) and options.given(KEEP_MIN):
        _check_bounds(options)
    return options


def with_properties(given: Options, config: TableConfig) -> Options:
    """The caller's options over Hudi's own among the table's properties; OptionError where the two together make no
    sense."""
    try:
        ARCHIVE.over(config.properties, {}, "hoodie.")
    except OptionError as error:
        raise OptionError(
            error.what, key=error.key, file=PROPERTIES, why=error.why, todo="Correct the table's property"
        ) from error
    merged = ARCHIVE.over(config.properties, given.raw, "hoodie.")
    _check_bounds(merged)
    return merged


def effective_bounds(options: Options, instants: Sequence[ActiveInstant], config: TableConfig) -> Bounds:
    """The bounds, raised to what the cleaner retains now."""
    least, most = options[KEEP_MIN], options[KEEP_MAX]
    commits = [instant.time for instant in instants if instant.done and instant.writes]
    retained, pending = _earliest_retained(options, instants, commits, config)
    if retained is None:
        return Bounds(least, most)
    needed = sum(time > retained for time in commits) + 2
    if needed <= least:
        return Bounds(least, most)
    policy = options[CLEANER_POLICY]
    reason = f"the cleaner retains everything from {retained} on ({policy}), and one commit before it must stay"
    remedy = _RETAIN_LESS[policy]
    if pending is not None:
        reason = f"{never_ended(pending, config.timezone)}: until it ends {reason}"
        remedy = how_to_end(pending)
    return Bounds(needed, needed + most - least, needed - least, reason, remedy)


def described(options: Options, given: Options, bounds: Bounds) -> dict[str, str]:
    """The values that are used, by key, each with where it comes from."""
    settings = {}
    for option, used in ((KEEP_MIN, bounds.least), (KEEP_MAX, bounds.most)):
        asked = options[option]
        settings[option.key] = (
            f"{used}: raised from {asked}, since {bounds.reason}"
            if used != asked
            else f"{used}: {_source(option, options, given)}"
        )
    for shown_option in _SHOWN:
        value = options[shown_option]
        text = str(value).lower() if isinstance(value, bool) else str(value)
        settings[shown_option.key] = f"{text}: {_source(shown_option, options, given)}"
    return settings


def _source(option: Option[object] | Option[int], options: Options, given: Options) -> str:
    if given.given(option):
        return "as given"
    return "the table's property" if options.given(option) else "the default"


def _check_bounds(options: Options) -> None:
    least, most = options[KEEP_MIN], options[KEEP_MAX]
    if most <= least:
        raise OptionError(
            f"option {KEEP_MAX.key!r} is {most} and {KEEP_MIN.key!r} is {least}",
            key=KEEP_MAX.key,
            why="an archival begins above the maximum and leaves the minimum",
            todo="Set the maximum above the minimum",
        )


def _earliest_retained(
    options: Options, instants: Sequence[ActiveInstant], commits: Sequence[str], config: TableConfig
) -> tuple[str | None, ActiveInstant | None]:
    """The earliest commit that a clean planned now would retain, None where it would clean nothing by commits; and the
    pending instant that makes the clean retain that much, None without one."""
    policy = options[CLEANER_POLICY]
    if policy == "KEEP_LATEST_COMMITS":
        retained = options[COMMITS_RETAINED]
        if len(commits) <= retained:
            return None, None
        earliest = commits[-retained]
    elif policy == "KEEP_LATEST_BY_HOURS":
        zone = datetime.UTC if config.timezone == "UTC" else None
        since = clock.earlier(clock.moment(zone), hours=options[HOURS_RETAINED])
        recent = [time for time in commits if time >= since.strftime(INSTANT_FORMAT)[: len(time)]]
        if not recent:
            return None, None
        earliest = recent[0]
    else:
        return None, None
    pending = next((i for i in instants if i.writes and not i.done), None)
    if pending is not None and earliest > pending.time:
        return max((time for time in commits if time < pending.time), default=None), pending
    return earliest, None


_RETAIN_LESS = {
    "KEEP_LATEST_COMMITS": f"Lower {COMMITS_RETAINED.key}, or keep more commits with {KEEP_MIN.key}",
    "KEEP_LATEST_BY_HOURS": f"Lower {HOURS_RETAINED.key}, or keep more commits with {KEEP_MIN.key}",
}
