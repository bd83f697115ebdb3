"""Run what follows a published commit. A failure becomes a note of the commit's result, not an error.

An error would tell the caller that nothing was written, and they would write again. So everything that comes after the
name was claimed (hints, callbacks, expiry, the removal of leftovers) runs through here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakebed.errors import first_line


def afterwards(what: str, act: Callable[[], object]) -> tuple[str, ...]:
    """Run `act`. Returns a note that says how it failed, or nothing.

    `what` describes the consequence of a failure, for example "old snapshots stay".
    """

    def without_notes() -> tuple[str, ...]:
        act()
        return ()

    return noted(what, without_notes)


def noted(what: str, act: Callable[[], Sequence[str]]) -> tuple[str, ...]:
    """As `afterwards`, for a function that returns notes of its own."""
    try:
        return tuple(act())
    except Exception as error:  # noqa: BLE001 - whatever it is, the commit stands
        return (f"the commit stands, but {what}: {_text(error)}",)


def _text(error: Exception) -> str:
    """The first line of an error, with the name of its type unless it is a LakebedError."""
    text, kind = first_line(error), type(error).__name__
    return text if type(error).__module__.startswith("lakebed.") or text == kind else f"{kind} {text}"
