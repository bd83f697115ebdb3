"""Rows that a write put aside and that nothing will ever take: its process died between staging and commit.

No reader sees them, for no snapshot names them. A write at work is not told from a dead one but by age.
"""

from __future__ import annotations

from lakebed.formats.paimon.layout import STAGING_FOLDER
from lakebed.kernel.files import Store
from lakebed.kernel.files.age import older_than

ABANDONED_SECONDS = 24 * 3600
"""Age above which staged rows belong to no write any more, as the removal of orphan files in Paimon has it."""


def abandoned_rows(store: Store, now: float) -> list[str]:
    """The files of staged rows that are old enough to go at a time in seconds since 1970."""
    staged = [info.path for info in store.list(STAGING_FOLDER).files]
    return older_than(store, staged, now - ABANDONED_SECONDS)
