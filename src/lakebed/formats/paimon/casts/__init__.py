"""Paimon's casts: what a value becomes when its column's type has changed. Whole columns at a time.

Rules: Paimon's CastExecutors and the cast rules that it lists, DataTypeCasts for the pairs that ALTER TABLE allows,
as release 1.3.1 has them. Their results are kept as vectors in tests/golden/paimon/cast_vectors.jsonl.
"""

from lakebed.formats.paimon.casts.rules import cast_values

__all__ = ["cast_values"]
