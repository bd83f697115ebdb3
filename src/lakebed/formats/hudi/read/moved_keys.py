"""File groups that keys may have moved between: one task reads them together, which keeps a key's changes in order.

A commit that deletes a key in one file group and inserts it in another leaves no trace of the move but these two
counts. Inside a partition any index may put a deleted key back into another file group, in the same commit or later; a
clustering or an overwrite moves whole groups. Between partitions a global index moves a key within one commit
(`hoodie.*.update.partition.path`), and so does an overwrite of several partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakebed.formats.hudi.read.split import FileGroupChange, HudiSplit

ChangeOrder = tuple[str, str, int]
"""The place of a change: by order and instant of its commit, then 0 for what took keys away and 1 for the rest."""


class Touch(NamedTuple):
    """What one commit did to one file group: whether keys left it, and whether new ones came."""

    order: str
    partition: str
    file_id: str
    removes: bool
    adds: bool


@dataclass
class GroupChanges:
    """The changes of a range, gathered group by group, to become splits.

    `replaced_partitions` are the partitions of which file groups were replaced: each is read by one task.
    """

    replaced_partitions: Collection[str]
    _changes: dict[tuple[str, str], list[tuple[ChangeOrder, FileGroupChange]]] = field(default_factory=dict)
    _sizes: dict[tuple[str, str], int] = field(default_factory=dict)
    _touches: list[Touch] = field(default_factory=list)

    def add(self, touch: Touch, place: ChangeOrder, change: FileGroupChange) -> None:
        """Add what one commit did to one file group."""
        self._changes.setdefault((touch.partition, touch.file_id), []).append((place, change))
        self._touches.append(touch)

    def add_size(self, partition: str, file_id: str, size: int) -> None:
        """Add bytes to the size of a file group."""
        self._sizes[partition, file_id] = self._sizes.get((partition, file_id), 0) + size

    def splits(self) -> Iterator[HudiSplit]:
        """One split per file group, or one for all groups that keys may have moved between."""
        together = partitions_together(self._touches, self.replaced_partitions)
        joined: dict[str, list[tuple[ChangeOrder, FileGroupChange]]] = {}
        sizes: dict[str, int] = {}
        for key, changes in self._changes.items():
            name = together.get(key[0], group_name(*key))
            joined.setdefault(name, []).extend(changes)
            sizes[name] = sizes.get(name, 0) + self._sizes.get(key, 0)
        for name, placed in joined.items():
            ordered = sorted(placed, key=lambda entry: entry[0])
            yield HudiSplit(name, sizes[name], (), (), tuple(change for _, change in ordered))


def partitions_together(touches: Sequence[Touch], replaced: Iterable[str]) -> dict[str, str]:
    """The partitions whose file groups one task reads, each with the first partition of its task.

    `replaced` are partitions of which file groups were replaced. A partition that is not named has one task per group.
    """
    first = {partition: partition for partition in replaced}
    first |= {partition: partition for partition in _moved_inside(touches)}
    for partitions in _moved_between(touches):
        heads = {first.get(partition, partition) for partition in partitions}
        least = min(heads)
        first |= dict.fromkeys(partitions, least)
        first |= {partition: least for partition, head in first.items() if head in heads}
    return first


def group_name(partition: str, file_id: str) -> str:
    """The name of a split of one file group."""
    return f"{partition}/{file_id}" if partition else file_id


def _moved_inside(touches: Iterable[Touch]) -> set[str]:
    """Partitions where a file group got keys when another one lost some, or after it."""
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
    return [lost | gained for lost, gained in both if gained and len(lost | gained) > 1]
