"""The buckets of a partition under consistent hashing: `.hashing_meta` files, and the children of a resizing in the
plan of a clustering.

A bucket is a node on a ring of hashes: it takes those that are greater than the value of the node before it, up to its
own value. A resizing gives a clustering the nodes that come in place of others, each tagged REPLACE, or DELETE for one
that goes.

Rules: Hudi's `HoodieConsistentHashingMetadata`, `ConsistentHashingNode` and `ConsistentBucketIdentifier`.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from lakebed.errors import CorruptError
from lakebed.kernel.decoding import decoding, parsed_json

FIRST = "00000000000000"
"""The instant of the metadata with which a partition begins."""
GREATEST = 0x7FFFFFFF
"""The greatest hash, and a mask for hashes."""
NORMAL, REPLACE, DELETE = "NORMAL", "REPLACE", "DELETE"
PARTITION, CHILDREN, SEQUENCE = (
    "clustering.group.partition",
    "clustering.group.child.node",
    "clustering.group.sequence.no",
)
"""Keys of what the plan of a resizing keeps with each of its groups."""


class HashingNode(NamedTuple):
    """A bucket: the greatest hash that it takes, and how the id of its file group begins ("" for a node that goes)."""

    value: int
    prefix: str
    tag: str = NORMAL

    @property
    def file_id(self) -> str:
        """The file group of the bucket."""
        return f"{self.prefix}-0"


@dataclass(frozen=True, slots=True)
class HashingMetadata:
    """The buckets of a partition since an instant, by their values. `first` is how many it began with, `sequence` how
    often they were changed."""

    partition: str
    instant: str
    first: int
    sequence: int
    nodes: tuple[HashingNode, ...]

    @classmethod
    def initial(cls, partition: str, buckets: int) -> HashingMetadata:
        """The buckets with which a partition begins. All writers give them the same file ids."""
        step = (GREATEST + buckets - 1) // buckets
        ends = [min(step * number, GREATEST) for number in range(buckets + 1)]
        nodes = (HashingNode(end, _first_prefix(partition, start, end)) for start, end in pairwise(ends))
        return cls(partition, FIRST, buckets, 0, tuple(nodes))

    def with_children(self, children: Iterable[HashingNode], instant: str) -> HashingMetadata:
        """The buckets after the resizing `instant`. CorruptError for children that do not belong to them."""
        ring = {node.value: node for node in self.nodes}
        for child in children:
            if child.tag not in (REPLACE, DELETE) or (child.tag == DELETE and child.value not in ring):
                raise CorruptError(
                    f"the plan {instant} does not belong to the buckets of partition {self.partition!r}",
                    why=f"it has a node {child.value} tagged {child.tag}",
                    todo="Withdraw the plan (lakebed.rewrite.step=withdraw), and cluster again",
                )
            if child.tag == DELETE:
                del ring[child.value]
            else:
                ring[child.value] = child._replace(tag=NORMAL)
        return replace(self, instant=instant, sequence=self.sequence + 1, nodes=_sorted(ring.values()))

    def renewed(self, instant: str) -> HashingMetadata:
        """The same buckets with new file groups, since an instant that took the old ones out of use."""
        nodes = tuple(HashingNode(node.value, str(uuid.uuid4())) for node in self.nodes)
        return replace(self, instant=instant, sequence=self.sequence + 1, nodes=nodes)


@decoding("the buckets of a partition cannot be read")
def parse_hashing(data: bytes) -> HashingMetadata:
    """The content of a `.hashing_meta` file."""
    record = parsed_json(data)
    nodes = tuple(_node(node) for node in record.get("nodes") or ())
    return HashingMetadata(
        str(record.get("partitionPath") or ""),
        str(record.get("instant") or FIRST),
        int(record.get("numBuckets") or len(nodes)),
        int(record.get("seqNo") or 0),
        _sorted(nodes),
    )


def encode_hashing(metadata: HashingMetadata) -> bytes:
    """The content of a `.hashing_meta` file."""
    record = {
        "version": 0,
        "partitionPath": metadata.partition,
        "instant": metadata.instant,
        "numBuckets": metadata.first,
        "seqNo": metadata.sequence,
    }
    head = _json(record).removesuffix("\n}")
    return f'{head},\n  "nodes" : {_nodes(metadata.nodes, "  ")}\n}}'.encode()


@decoding("the buckets of a resizing cannot be read")
def parse_children(extra: Mapping[str, str]) -> tuple[HashingNode, ...]:
    """The children in what a plan keeps with one of its groups; none where the plan resizes nothing."""
    return tuple(_node(node) for node in parsed_json(extra.get(CHILDREN) or "[]"))


def children_extra(partition: str, children: Sequence[HashingNode], sequence: int) -> dict[str, str]:
    """The extra metadata of one group in a resizing's plan."""
    return {PARTITION: partition, CHILDREN: _nodes(children), SEQUENCE: str(sequence)}


def _first_prefix(partition: str, start: int, end: int) -> str:
    """A name-based UUID, as Java's `UUID.nameUUIDFromBytes` makes it."""
    name = start.to_bytes(8, "big") + end.to_bytes(8, "big") + partition.encode()
    return str(uuid.UUID(bytes=hashlib.md5(name, usedforsecurity=False).digest(), version=3))


def _node(record: Mapping[str, Any]) -> HashingNode:
    return HashingNode(int(record["value"]), str(record.get("fileIdPrefix") or ""), str(record.get("tag") or NORMAL))


def _nodes(nodes: Iterable[HashingNode], indent: str = "") -> str:
    records = ({"value": node.value, "fileIdPrefix": node.prefix or None, "tag": node.tag} for node in nodes)
    return f"[ {', '.join(map(_json, records))} ]".replace("\n", f"\n{indent}")


def _sorted(nodes: Iterable[HashingNode]) -> tuple[HashingNode, ...]:
    return tuple(sorted(nodes, key=lambda node: node.value))


def _json(record: Mapping[str, Any]) -> str:
    return json.dumps(record, indent=2, separators=(",", " : "), ensure_ascii=False)
