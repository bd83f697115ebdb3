"""The order of changes where keys move between buckets: what a commit retracts comes before what it adds.

A key's bucket is its own, so buckets are read side by side. There are three exceptions: a table whose keys move between
partitions; an overwrite, which gives keys of dynamic buckets new ones, or a partition another number of buckets,
whether or not its own rows are read; and postponed rows, which replace those of all real buckets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace

from lakebed.formats.paimon.definition import BucketMode
from lakebed.formats.paimon.layout import POSTPONE_BUCKET
from lakebed.formats.paimon.read.split import ChangeSplit, How, Only, Step


def moved_partitions(
    rounds: Iterable[Sequence[Step]], totals: Mapping[bytes, Set[int]], mode: BucketMode, passes_over: bool
) -> frozenset[bytes]:
    """The partitions, as serialized rows, where an overwrite may have put keys into other buckets than they were in,
    and those that have rows in postponed buckets and in real ones.

    `rounds` are the steps of each commit, and `totals` the numbers of buckets that files of a partition were written
    for. `passes_over`: there is an overwrite among the commits whose rows are not read.
    """
    commits = Counter[bytes]()
    retracting: set[bytes] = set()
    real: set[bytes] = set()
    postponed: set[bytes] = set()
    for steps in rounds:
        for step in steps:
            (postponed if step.side.bucket == POSTPONE_BUCKET else real).add(step.side.partition)
        commits.update({step.side.partition for step in steps})
        retracting |= {step.side.partition for step in steps if retracts(step)}
    several = {partition for partition, count in commits.items() if count > 1}
    if mode is BucketMode.HASH_DYNAMIC:
        return frozenset(retracting | several if passes_over else retracting)
    resized = {one for one in retracting | several if len(totals.get(one, ())) > 1}
    return frozenset(resized | (postponed & real))


def retracts(step: Step) -> bool:
    """Whether a step has the rows of files that an overwrite removed."""
    return step.how is How.REPLACED and step.removed is not None


def in_order(group: str, rounds: Iterable[Sequence[Step]], divides: Callable[[Step], bool]) -> ChangeSplit:
    """One split of all steps, commit by commit. What a commit retracts comes first, from the steps that `divides`
    names: the rows of the others stay in the order in which they were written."""
    steps: list[Step] = []
    for of_commit in rounds:
        steps += (replace(step, only=Only.RETRACTED) for step in of_commit if divides(step))
        steps += (replace(step, only=Only.CURRENT) if divides(step) else step for step in of_commit)
    return ChangeSplit(group, sum(map(size_of, steps)), tuple(steps))


def size_of(step: Step) -> int:
    """The bytes of a step's files, of both sides."""
    return sum(side.size for side in (step.added, step.removed) if side is not None)
