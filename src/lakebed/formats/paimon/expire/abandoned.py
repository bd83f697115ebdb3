"""Rows that a write put aside and that nothing will ever take: its process died between staging and commit.

No reader sees them, for no snapshot names them. A write at work is not told from a dead one but by age.
"""

from __future__ import annotations

import time
from contextlib import suppress

from lakebed.formats.paimon.layout import STAGING_FOLDER
from lakebed.kernel.files import Store

ABANDONED_SECONDS = 24 * 3600
"""Age above which staged rows belong to no write any more, as the removal of orphan files in Paimon has it."""


def abandoned_rows(store: Store) -> list[str]:
    """The files of staged rows that are old enough to go."""
    before = time.time() - ABANDONED_SECONDS
    found = []
    for info in store.list(STAGING_FOLDER).files:
        with suppress(FileNotFoundError):  # its write has just removed it
            if store.modified(info.path) < before:
                found.append(info.path)
    return found
