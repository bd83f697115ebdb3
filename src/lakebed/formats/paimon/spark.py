"""Paimon's own Spark source, for `spark.read.format("paimon")`: it takes the keys of the table and reads as it does."""

from __future__ import annotations

from lakebed.formats.paimon.table import PaimonTable
from lakebed.verbs.native_source import NativeSource

SOURCE: NativeSource[PaimonTable] = NativeSource()
