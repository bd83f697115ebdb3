"""The `.hashing_config` files of numbers of buckets by partition: which one counts, and the first one.

    .hoodie/.bucket_index/partition_bucket_index_meta/configs/<instant>.hashing_config

A table begins with that of the instant 0. Later ones belong to rescalings by Hudi's own engine, and count once their
instants are not pending. The newest that counts says how many buckets each partition has; options do where there is
none.

Rules: Hudi's `PartitionBucketIndexHashingConfig`, and its Spark sink.
"""

from __future__ import annotations

from lakebed.formats.hudi.codec.bucket_rules import FIRST, BucketRules, encode_rules, parse_rules
from lakebed.formats.hudi.layout import BUCKET_RULES, bucket_rules_file
from lakebed.formats.hudi.read.state import TableState
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import Store
from lakebed.kernel.options import is_number

_FILE = ".hashing_config"


def load_rules(state: TableState) -> BucketRules | None:
    """The rules that count, None for a table that has none. CorruptError for a file that is none."""
    instants = {info.name.removesuffix(_FILE): info.path for info in state.store.list(BUCKET_RULES).files}
    for instant in sorted((instant for instant in instants if is_number(instant)), reverse=True):
        entry = state.timeline.by_time.get(instant)
        if entry is None or entry.done:
            path, table = instants[instant], state.store.location
            with decoding("the numbers of buckets by partition cannot be read", table=table, file=path):
                return parse_rules(state.store.read(path), table)
    return None


def save_first_rules(store: Store, rules: BucketRules) -> None:
    """Give a table its first rules, unless another writer did."""
    store.put_if_absent(bucket_rules_file(FIRST), encode_rules(rules, FIRST))
