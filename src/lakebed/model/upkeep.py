"""Results of rewrite, expire and archive: what was done, what was left, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something an upkeep verb left alone: `what` (file, group, partition, snapshot) and the `reason`."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Files that are rewritten together: of which partition (`what`), how many, and why they are.

    Sizes are bytes on disk; `files_after` and `size_after` are predicted.
    """

    what: str
    files: int
    size: int
    files_after: int
    size_after: int
    reason: str


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """Sizes are bytes on disk. With `dry_run` the `_after` figures are the plan's prediction; nothing was written.

    `plan` holds the groups, each with why it is in; `failed` those that failed, each with the reason, where the others
    were committed all the same; `instants` the commits made, `removed_deletes` the delete files that went with them.
    """

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    groups: int
    skipped: tuple[Skipped, ...] = ()
    dry_run: bool = False
    plan: tuple[RewriteGroup, ...] = ()
    failed: tuple[Skipped, ...] = ()
    instants: tuple[str, ...] = ()
    removed_deletes: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExpireResult:
    """`expired` are instants or snapshot ids, `deleted_files` paths inside the table, `kept` what stays and why,
    `notes` what else went."""

    expired: tuple[str, ...]
    deleted_files: tuple[str, ...]
    kept: tuple[Skipped, ...] = ()
    dry_run: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RelocateResult:
    """`moved_from` is where the metadata said that the table lies, `location` where it lies now; `manifests` and
    `delete_files` are how many of each were written anew."""

    moved_from: str
    location: str
    manifests: int
    delete_files: int
    dry_run: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Blocker:
    """What holds an instant in the active timeline, and what would free it."""

    instant: str
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """`archived` and `kept` are instant times; `settings` the values really used, each with its reason.

    `dropped` are archived instants that the retention of the archive removed, `dropped_files` the archive files that it
    removed or wrote anew without them. `notes` say what failed once the instants were archived: the next run does it.
    """

    archived: tuple[str, ...]
    kept: tuple[str, ...]
    blockers: tuple[Blocker, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    dropped: tuple[str, ...] = ()
    dropped_files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
