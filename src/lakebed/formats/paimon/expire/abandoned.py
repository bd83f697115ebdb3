"""Staged rows that no write will ever commit, because its process died between staging and commit.

No reader sees them, since no snapshot names them. Only their age tells a dead write from one at work.
"""

from __future__ import annotations

from lakebed.formats.paimon.layout import STAGING_FOLDER
from lakebed.kernel.files import Store
from lakebed.kernel.files.age import older_than

ABANDONED_SECONDS = 24 * 3600
"""The age from which staged rows no longer belong to a write, as in Paimon's removal of orphan files."""


def abandoned_rows(store: Store, now: float) -> list[str]:
    """The files of staged rows that are old enough to be removed; `now` in seconds since 1970."""
    staged = [info.path for info in store.list(STAGING_FOLDER).files]
    return older_than(store, staged, now - ABANDONED_SECONDS)
