"""A Hudi table."""

from __future__ import annotations

from typing import ClassVar

from lakebed.verbs.table import Table


class HudiTable(Table):
    """A Hudi table, copy-on-write or merge-on-read."""

    format: ClassVar[str] = "hudi"
