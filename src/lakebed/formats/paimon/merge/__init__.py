"""Which row of a key wins, for rows within one write and for the sorted runs of a read: one module a merge engine."""

from lakebed.formats.paimon.merge.function import MergeFunction, merge_function
from lakebed.formats.paimon.merge.ordering import Runs, key_runs, sort_order

__all__ = ["MergeFunction", "Runs", "key_runs", "merge_function", "sort_order"]
