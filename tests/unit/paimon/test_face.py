"""What a Paimon table answers to verbs that it does not have."""

from __future__ import annotations

import pytest

import lakebed
from lakebed.errors import UnsupportedError
from tests.golden import unpack


def test_archive_says_that_the_format_has_no_such_thing_and_what_to_do() -> None:
    table = lakebed.open(unpack("paimon", "pk_fixed"))
    with pytest.raises(UnsupportedError, match=r"the paimon format does not have it.*expiring snapshots"):
        table.archive(dry_run=True)
