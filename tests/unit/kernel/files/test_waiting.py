"""Requests are counted, also in a process that was forked while a thread was counting one."""

from __future__ import annotations

import os

from lakebed.kernel.files import waiting


def test_a_fork_counts_its_own_requests() -> None:
    before = waiting.requests_made()
    with waiting.slots(4):
        pass
    assert waiting.requests_made() == before + 1
    with waiting._made._lock:  # as another thread may hold it
        child = os.fork()
        if not child:
            with waiting.slots(4):
                pass
            os._exit(0 if waiting.requests_made() == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
