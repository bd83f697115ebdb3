"""Who commits to a table, and how."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.kernel.commit.callbacks import CommitCallback, NamedCallbacks


class ExpiryAfterCommit(Protocol):
    """An expiry that a writer runs after its commits."""

    def look(self) -> None:
        """Read what tells whether an expiry is due. Called before a commit, while other metadata is read."""
        ...

    def run_if_due(self, latest: Snapshot | None) -> bool:
        """Expire what is due when the newest snapshot is `latest`. Returns whether something was."""
        ...


class TagsAfterCommit(Protocol):
    """The tags that a writer makes and removes after its commits."""

    def forces_snapshot(self, latest: Snapshot | None) -> bool:
        """Whether a stream's commit without files makes a snapshot, so that a tag can be made."""
        ...

    def run(self, latest: Snapshot | None, of_batch: bool, ends_tags: bool, after_expiry: bool) -> tuple[str, ...]:
        """Make the tags that are due when the newest snapshot is `latest`. With `ends_tags`, also remove those whose
        time to live is over; `after_expiry` says that snapshots expired. The notes say what failed."""
        ...


class PartitionExpiryAfterCommit(Protocol):
    """An expiry of partitions that a writer runs after its commits."""

    def run_if_due(self, user: str, identifier: int, latest: Snapshot | None) -> Snapshot | None:
        """Expire what is due after a commit of this user and identifier. Returns the newest snapshot."""
        ...


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """How the commits of one writer behave; the defaults are Paimon's.

    - `user`: the commit user. One user commits an identifier once.
    - `ignore_empty`: make no snapshot of a commit without files; None: of a batch's only.
    - `expire_for_empty`: expire old snapshots after a commit without files too.
    - `check_appends`: look for conflicts before appends too.
    - `rows_since`: fail when a snapshot after this one changed rows that the commit changes, by their row ids; None:
      do not look.
    - `callbacks`: what to call after each commit; `named`: those that options name.
    - `expire`: the expiry to run after commits, when it is due; None: none. It pickles.
    - `tags`: the tags to make and remove after commits; None: none. They pickle.
    - `watermark`: that of the commits, in milliseconds since 1970. A snapshot has the greatest one so far.
    - `partitions`: the same for partitions. It comes first.
    """

    user: str
    ignore_empty: bool | None = None
    expire_for_empty: bool = True
    check_appends: bool = False
    rows_since: int | None = None
    callbacks: tuple[CommitCallback, ...] = ()
    named: NamedCallbacks | None = None
    expire: ExpiryAfterCommit | None = None
    tags: TagsAfterCommit | None = None
    watermark: int | None = None
    partitions: PartitionExpiryAfterCommit | None = None

    @property
    def picklable(self) -> CommitOptions:
        """The same without the callbacks that are objects, which stay in the process that was given them."""
        return replace(self, callbacks=())

    @property
    def every_callback(self) -> tuple[CommitCallback, ...]:
        """The callbacks that were given and those that options name."""
        return (*self.callbacks, *(self.named.made if self.named is not None else ()))
