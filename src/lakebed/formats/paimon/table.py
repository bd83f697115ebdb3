"""A Paimon table."""

from __future__ import annotations

from typing import ClassVar

from lakebed.verbs.table import Table


class PaimonTable(Table):
    """A Paimon table."""

    format: ClassVar[str] = "paimon"
