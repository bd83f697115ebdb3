"""Commit callbacks of Iceberg tables: called after each snapshot of a call, at most once.

Options of the call, or of opening the table, name them. The table's own properties never do: whoever can write its
metadata must not choose which code runs here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lakebed.formats.iceberg.options import CALLBACK_PARAMETERS, CALLBACKS
from lakebed.kernel.commit.callbacks import CommitCallback, Committed, NamedCallbacks, call_each
from lakebed.model.upkeep import RewriteResult


def named_callbacks(options: Mapping[str, str]) -> NamedCallbacks:
    """The callbacks that options name. OptionError for one that cannot be imported or created."""
    names = next((value for key, value in options.items() if key.lower() == CALLBACKS.key), "")
    return NamedCallbacks.of(CALLBACKS.key, names, options, CALLBACK_PARAMETERS)


def excluding_callbacks(options: Mapping[str, object]) -> dict[str, object]:
    """The options that do not configure callbacks."""
    kept = (key for key in options if key != CALLBACKS.key and not key.startswith(CALLBACK_PARAMETERS))
    return {key: options[key] for key in kept}


def report_rewrite(result: RewriteResult, table: str, callbacks: Sequence[CommitCallback]) -> RewriteResult:
    """Call the callbacks for each snapshot of a rewrite. A callback that fails becomes a note of the result."""
    notes: list[str] = []
    for instant in result.instants:
        notes += call_each(callbacks, _Call(Committed(table, int(instant), "", 0, "replace")))
    return replace(result, notes=(*result.notes, *notes)) if notes else result


@dataclass(frozen=True, slots=True)
class _Call:
    """Calls a callback with a commit. Picklable."""

    commit: Committed

    def __call__(self, callback: CommitCallback) -> None:
        callback.call(self.commit)
