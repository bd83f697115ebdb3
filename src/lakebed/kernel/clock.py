"""The clock. All code that needs the time asks here, so that tests can set it.

`now` is this machine's clock. It may differ from another machine's by any amount, and may be set while we run. `steady`
measures how long something took, and `pause` waits. Neither `now` nor `steady` says how old a file is: ask the store,
whose clock stamped the file (`lakebed.kernel.files.age`).
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Read = Callable[[], float]
Pause = Callable[[float], None]
_EARLIEST = datetime.datetime(1000, 1, 1)


def _machine() -> float:
    return time.time()


def _since_boot() -> float:
    # unlike the monotonic clock, it counts the time that the machine sleeps
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _sleep(seconds: float) -> None:
    time.sleep(seconds)


_now: Read = _machine
_steady: Read = _since_boot
_pause: Pause = _sleep


def now() -> float:
    """Seconds since 1970 by this machine's clock."""
    return _now()


def now_ms() -> int:
    """Milliseconds since 1970 by this machine's clock."""
    return int(now() * 1000)


def moment(zone: datetime.tzinfo | None = None) -> datetime.datetime:
    """The time of this machine's clock, in `zone` (None: the machine's own), as a datetime without a zone."""
    return datetime.datetime.fromtimestamp(now(), zone).replace(tzinfo=None)


def earlier(moment: datetime.datetime, **span: float) -> datetime.datetime:
    """The moment so many `days`, `hours`, `seconds` or `milliseconds` before one without a zone. Where no date is so
    early, the year 1000, which is before every table."""
    try:
        return max(moment - datetime.timedelta(**span), _EARLIEST)
    except OverflowError:
        return _EARLIEST


def steady() -> float:
    """Seconds that never go back, and that count the time that the machine sleeps. Only differences mean anything."""
    return _steady()


def pause(seconds: float) -> None:
    """Wait for so many seconds, before another try."""
    _pause(seconds)


def is_steered() -> bool:
    """Whether somebody else decides how time passes, such as a test: nothing may wait by the machine's own clock."""
    return _steady is not _since_boot


@contextmanager
def set_clock(now: Read | None = None, steady: Read | None = None, pause: Pause | None = None) -> Iterator[None]:
    """For tests: inside the block, the whole process reads these clocks, and waits as `pause` does."""
    global _now, _steady, _pause
    before = _now, _steady, _pause
    _now, _steady, _pause = now or _now, steady or _steady, pause or _pause
    try:
        yield
    finally:
        _now, _steady, _pause = before
