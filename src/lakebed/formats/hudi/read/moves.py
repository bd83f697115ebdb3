"""Between which file groups a key may have moved: those are read together, so that its changes keep their order.

A commit that deletes a key in one file group and inserts it in another tells nothing of the move but these two counts.
Inside a partition any index may put a deleted key back into another file group, in the same commit or later; a
clustering or an overwrite moves whole groups. Between partitions a global index moves a key within one commit
(`hoodie.*.update.partition.path`), and so does an overwrite of several partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from lakebed.formats.hudi.read.split import FileGroupChange, HudiSplit

Placed = tuple[tuple[str, str, int], FileGroupChange]
"""A change and its place among those of a split: by commit, in one commit first what took keys away."""


class Touch(NamedTuple):
    """What one commit did to one file group: whether keys left it, whether new ones came."""

    order: str
    partition: str
    file_id: str
    removes: bool
    adds: bool


def partitions_together(touches: Collection[Touch], reordered: Iterable[str]) -> dict[str, str]:
    """The partitions whose file groups are read by one task, each with the first partition of its task.

    `reordered` are partitions whose file groups were replaced. A partition that is not named keeps a task per group.
    """
    first = {partition: partition for partition in reordered}
    first |= {partition: partition for partition in _moved_inside(touches)}
    for partitions in _moved_between(touches):
        known = {first.get(partition, partition) for partition in partitions}
        least = min(known)
        first |= dict.fromkeys(partitions, least)
        first |= {partition: least for partition, head in first.items() if head in known}
    return first


def _moved_inside(touches: Iterable[Touch]) -> set[str]:
    """Partitions where a file group got keys when, or after, another one lost some."""
    removed: dict[str, dict[str, str]] = {}
    for touch in touches:
        if touch.removes:
            groups = removed.setdefault(touch.partition, {})
            groups[touch.file_id] = min(groups.get(touch.file_id, touch.order), touch.order)
    # The first two are enough: of any group at least one of them is another.
    earliest = {partition: sorted((o, g) for g, o in groups.items())[:2] for partition, groups in removed.items()}
    return {
        touch.partition
        for touch in touches
        if touch.adds
        and any(group != touch.file_id and touch.order >= order for order, group in earliest.get(touch.partition, ()))
    }


def _moved_between(touches: Iterable[Touch]) -> list[set[str]]:
    """For each commit the partitions that keys may have moved between, where there are several."""
    removed: dict[str, set[str]] = {}
    added: dict[str, set[str]] = {}
    for touch in touches:
        if touch.removes:
            removed.setdefault(touch.order, set()).add(touch.partition)
        if touch.adds:
            added.setdefault(touch.order, set()).add(touch.partition)
    both = ((partitions, added.get(order, set())) for order, partitions in removed.items())
    return [left | come for left, come in both if come and len(left | come) > 1]


def joined_splits(
    changes: Mapping[tuple[str, str], Sequence[Placed]],
    sizes: Mapping[tuple[str, str], int],
    touches: Collection[Touch],
    reordered: Iterable[str],
) -> Iterator[HudiSplit]:
    """One split per file group (partition, file id), or for all of those that keys may have moved between."""
    together = partitions_together(touches, reordered)
    joined: dict[str, list[Placed]] = {}
    weight: dict[str, int] = {}
    for key, mine in changes.items():
        name = together.get(key[0], group_name(*key))
        joined.setdefault(name, []).extend(mine)
        weight[name] = weight.get(name, 0) + sizes.get(key, 0)
    for name, entries in joined.items():
        ordered = sorted(entries, key=lambda entry: entry[0])
        yield HudiSplit(name, weight[name], (), (), tuple(change for _, change in ordered))


def group_name(partition: str, file_id: str) -> str:
    """What a split of one file group is called."""
    return f"{partition}/{file_id}" if partition else file_id
