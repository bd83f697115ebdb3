"""The callbacks of commits to Iceberg tables: called after each snapshot that a call made, at best once.

They are named by options of the call, or of opening the table, and never by the table itself: whoever can write its
metadata shall not choose what runs here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lakebed.formats.iceberg.options import CALLBACK_PARAMETERS, CALLBACKS
from lakebed.kernel.commit.callbacks import CommitCallback, Committed, call_each, load_callbacks
from lakebed.model.upkeep import RewriteResult


def named(options: Mapping[str, str]) -> tuple[CommitCallback, ...]:
    """Those that options name; OptionError for what cannot be imported or made."""
    raw = {key.lower(): value for key, value in options.items()}
    names = raw.get(CALLBACKS.key, "")
    return tuple(
        load_callbacks(names, lambda name: raw.get(f"{CALLBACK_PARAMETERS}{name}.param".lower()), CALLBACKS.key)
    )


def without(options: Mapping[str, object]) -> dict[str, object]:
    """Options without those of callbacks."""
    kept = (key for key in options if key != CALLBACKS.key and not key.startswith(CALLBACK_PARAMETERS))
    return {key: options[key] for key in kept}


def told(result: RewriteResult, table: str, callbacks: Sequence[CommitCallback]) -> RewriteResult:
    """Call them for each snapshot of a rewrite; notes say which failed."""
    notes: list[str] = []
    for instant in result.instants:
        notes += call_each(callbacks, _Calling(Committed(table, int(instant), "", 0, "replace")))
    return replace(result, notes=(*result.notes, *notes)) if notes else result


@dataclass(frozen=True, slots=True)
class _Calling:
    commit: Committed

    def __call__(self, callback: CommitCallback) -> None:
        callback.call(self.commit)
