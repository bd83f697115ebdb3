"""A pending instant in words: since when it is pending, and what ends it."""

from __future__ import annotations

from lakebed.formats.hudi.archive.state_files import ActiveInstant
from lakebed.formats.hudi.layout import clock_time
from lakebed.model.fixes import Fix

_FAILED = "lakebed expire TABLE --option lakebed.expire.what=failed-writes"


def never_ended(pending: ActiveInstant, timezone: str) -> str:
    """The clause that an instant is pending, and since when."""
    return (
        f"{pending.kind} {pending.time} is {pending.last.state} and was never completed{requested(pending, timezone)}"
    )


def requested(pending: ActiveInstant, timezone: str) -> str:
    """When an instant was requested, as ` (requested at 2026-03-02 12:00:00 UTC)`; "" where its name is not a clock
    time."""
    began = clock_time(pending.time)
    if began is None:
        return ""
    return f" (requested at {began:%Y-%m-%d %H:%M:%S}{' UTC' if timezone == 'UTC' else ''})"


def how_to_end(pending: ActiveInstant) -> str:
    """The advice for a pending instant: what completes or removes it."""
    if pending.kind in ("restore", "rollback"):
        return (
            f"Carry {pending.kind} {pending.time} on (lakebed expire TABLE --option lakebed.expire.what=failed-writes)"
        )
    if pending.kind == "clean":
        return f"Let the next clean finish it: lakebed expire TABLE carries clean {pending.time} on"
    if not pending.writes:
        return f"Let the next {pending.kind} finish it, or roll it back or remove its files by Hudi's own tools"
    if pending.kind == "compaction":
        return _run_or_withdraw(pending, "compaction")
    if pending.kind == "logcompaction":
        return _run_or_withdraw(pending, "log-compaction")
    if pending.kind == "clustering":
        return _run_or_withdraw(pending, "clustering")
    if pending.action == "replacecommit":
        return f"If it is a clustering: {_run_or_withdraw(pending, 'clustering')}. An overwrite: {_FAILED}"
    return f"Let the writer of {pending.time} finish; if it is dead, roll {pending.time} back ({_FAILED})"


def fix_of(pending: ActiveInstant) -> Fix | None:
    """The call that completes or removes a pending instant, as `how_to_end` says; None where that depends on what its
    writer does."""
    if pending.kind in ("restore", "rollback"):
        return Fix("expire", (("lakebed.expire.what", "failed-writes"),))
    if pending.kind == "clean":
        return Fix("expire")
    what = {"compaction": "compaction", "logcompaction": "log-compaction", "clustering": "clustering"}.get(pending.kind)
    if what is None:
        return None
    options = {"what": what, "instant": pending.time, "step": "run"}
    return Fix("rewrite", tuple((f"lakebed.rewrite.{key}", value) for key, value in options.items()))


def _run_or_withdraw(pending: ActiveInstant, what: str) -> str:
    call = f"lakebed rewrite TABLE --option lakebed.rewrite.what={what} --option lakebed.rewrite.instant={pending.time}"
    return f"{call} --option lakebed.rewrite.step=run, or withdraw to take it back"
