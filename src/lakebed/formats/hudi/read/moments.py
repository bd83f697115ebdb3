"""The moments that callers name as text: instants, days, and ISO timestamps."""

from __future__ import annotations

import datetime

from lakebed.errors import OptionError, UsageError
from lakebed.formats.hudi.options import READ, SPARK

_FORMATS = {8: "%Y%m%d", 14: "%Y%m%d%H%M%S", 17: "%Y%m%d%H%M%S%f"}
"""The format of a day, and of the instants that Hudi writes, by the number of their digits."""


def instant_of_timestamp(text: str, what: str, timezone: str) -> str:
    """An ISO timestamp as an instant time (yyyyMMddHHmmssSSS) in the table's time zone.

    The zone is UTC, or this machine's for LOCAL as in Hudi. A timestamp without a zone is UTC. Raises as `no_moment`
    says for other text.
    """
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise no_moment(text, what) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    local = moment.astimezone(datetime.UTC if timezone == "UTC" else None)
    return local.strftime("%Y%m%d%H%M%S") + f"{local.microsecond // 1000:03d}"


def is_moment(digits: str, history: bool) -> bool:
    """Whether digits are a day, or an instant as Hudi writes it.

    An end of `history` may also lie beyond all instants: it is a number of zeros, or an instant of a bootstrap, which
    begins with zeros, or a number of nines.
    """
    if history and (set(digits) <= {"0"} or set(digits) == {"9"}):
        return True
    if len(digits) not in _FORMATS:
        return False
    if digits.startswith("0000"):
        return history
    try:
        datetime.datetime.strptime(digits, _FORMATS[len(digits)])
    except ValueError:
        return False
    return True


def no_moment(text: str, what: str) -> UsageError:
    """The error for text that names no moment: an OptionError where `what` is an option's key."""
    why = "it is neither an instant nor a timestamp"
    todo = "Give an instant such as 20240131093000000 or a timestamp such as 2024-01-31T09:30:00"
    if READ.knows(what) or SPARK.knows(what):
        return OptionError(f"option {what!r} is {text!r}", key=what, why=why, todo=todo)
    return UsageError(f"{what} is {text!r}", why=why, todo=todo)
