"""The one clock. Every decision that hangs on what time it is asks here, so that tests can set it.

`now` is this machine's clock, which may be off by any amount from that of another machine and may be set while we run.
`steady` only measures how long something took here. Whether a file is old is asked of the store, whose clock stamped
it: `lakebed.kernel.files.age`.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Read = Callable[[], float]


def _machine() -> float:
    return time.time()


def _since_boot() -> float:
    # unlike the monotonic clock it goes on while the machine sleeps
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


_now: Read = _machine
_steady: Read = _since_boot


def now() -> float:
    """Seconds since 1970 by this machine's clock."""
    return _now()


def now_ms() -> int:
    """Milliseconds since 1970 by this machine's clock."""
    return int(now() * 1000)


def moment(zone: datetime.tzinfo | None = None) -> datetime.datetime:
    """This moment by this machine's clock, without a zone: that of `zone`, None is the machine's own."""
    return datetime.datetime.fromtimestamp(now(), zone).replace(tzinfo=None)


def steady() -> float:
    """Seconds that never go back and do not stop while the machine sleeps; only differences mean something."""
    return _steady()


@contextmanager
def set_clock(now: Read | None = None, steady: Read | None = None) -> Iterator[None]:
    """For tests: the whole process reads these clocks inside the block."""
    global _now, _steady
    before = _now, _steady
    _now, _steady = now or _now, steady or _steady
    try:
        yield
    finally:
        _now, _steady = before
