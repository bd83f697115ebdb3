"""The merge engines: which row of a key wins, among the rows of one write and among the sorted runs of a read."""

from lakebed.formats.paimon.merge.function import MergeFunction, merge_function
from lakebed.formats.paimon.merge.ordering import Runs, key_runs, sort_order

__all__ = ["MergeFunction", "Runs", "key_runs", "merge_function", "sort_order"]
