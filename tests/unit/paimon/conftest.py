"""Fixtures of the Paimon tests."""

from tests.tables.paimon.small import make

__all__ = ["make"]
