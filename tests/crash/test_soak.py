"""The short form of `./run soak`: two writers, a reader, a rewrite and an expiry side by side, any of them killed."""

from __future__ import annotations

import pytest

from tests.crash.soak import PLACES, place, run

COMMITS = 4


@pytest.mark.parametrize("where", ["disk", "memory"])
@pytest.mark.parametrize("format", sorted(PLACES))
def test_every_acknowledged_append_is_there_once(format: str, where: str) -> None:
    with place(where, format, 2, COMMITS) as case:
        numbers = run(case, minutes=10, kills=0.3, seed=1, most_kills=2)
    assert numbers["commits"] == 2 * COMMITS
