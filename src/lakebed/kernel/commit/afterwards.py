"""What follows a commit that stands: it may fail, and then it is a note of the result.

An error would tell the caller that nothing was written, and he would write again. So whatever comes after the name was
claimed (hints, callbacks, expiry, the removal of leftovers) runs through here.
"""

from __future__ import annotations

from collections.abc import Callable

from lakebed.errors import first_line


def afterwards(what: str, act: Callable[[], object]) -> tuple[str, ...]:
    """Runs `act`; the note that says how it failed, none when it did not. `what` says what is so when it fails:
    "old snapshots stay"."""
    try:
        act()
    except Exception as error:  # noqa: BLE001 - whatever it is, the commit stands
        return (f"the commit stands, but {what}: {_said(error)}",)
    return ()


def _said(error: Exception) -> str:
    """What an error says; of one that is not ours its kind too."""
    text, kind = first_line(error), type(error).__name__
    return text if type(error).__module__.startswith("lakebed.") or text == kind else f"{kind} {text}"
