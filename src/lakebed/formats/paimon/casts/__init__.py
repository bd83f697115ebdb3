"""Paimon's casts, on whole columns: the value that a row of an older file has after its column's type changed.

Rules: Paimon's CastExecutors and the cast rules that it lists, and DataTypeCasts for the pairs of types that ALTER
TABLE allows, as of release 1.3.1. Their results are recorded as vectors in tests/golden/paimon/cast_vectors.jsonl.
"""

from lakebed.formats.paimon.casts.rules import cast_values

__all__ = ["cast_values"]
