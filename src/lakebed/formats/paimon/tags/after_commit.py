"""What commits do about tags: they make the automatic ones that are due, and end those whose time is over.

Rules: Paimon's TagAutoManager and TagBatchCreation. Times to live are looked at by each commit where new tags have
one by the table's options, otherwise only when snapshots expire too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Self

from lakebed.errors import OptionError
from lakebed.formats.paimon import tag_options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.tags.automatic import AutomaticTags, process_zone, wall_clock
from lakebed.formats.paimon.tags.lifetimes import TagLifetimes
from lakebed.formats.paimon.tags.names import Tags
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.options import Options
from lakebed.model.upkeep import RewriteResult

_OF_BATCHES = "batch-write-"


@dataclass(frozen=True, slots=True)
class TagsOfCommits:
    """Implements `commit.options.TagsAfterCommit` for one branch."""

    tags: Tags
    automatic: AutomaticTags | None
    lifetimes: TagLifetimes

    @classmethod
    def of(cls, history: History, schema: TableSchema, options: Options, given: Iterable[str]) -> Self:
        """By the options of the table and of the call. `given` are the keys that the caller gave.

        Raises OptionError for options that contradict each other, and where tags are made automatically, what
        `Tags.callbacks` raises.
        """
        tags = Tags(history, schema, options, given)
        if options[opt.TAG_CREATION] != "none":
            tags.callbacks()
        if "/" in options[opt.TAG_BATCH_NAME]:
            raise OptionError.ill_typed(opt.TAG_BATCH_NAME.key, options[opt.TAG_BATCH_NAME], "a name without a slash")
        return cls(tags, AutomaticTags.of(tags), TagLifetimes(tags))

    def forces_snapshot(self, latest: Snapshot | None) -> bool:
        """Whether a stream's commit without files makes a snapshot, so that a tag can be made."""
        return self.automatic is not None and self.automatic.forces_snapshot(latest)

    def run(self, latest: Snapshot | None, of_batch: bool, ends_tags: bool, after_expiry: bool) -> tuple[str, ...]:
        """Make the tags that are due when the newest snapshot is `latest`. With `ends_tags`, also remove those whose
        time to live is over; `after_expiry` says that snapshots expired. The notes say what failed."""
        options, automatic = self.tags.options, self.automatic
        notes: list[str] = []
        if latest is not None and automatic is not None:
            after = latest
            notes += afterwards("its tags are made by the next commit", lambda: notes.extend(automatic.run(after)))
        elif latest is not None and of_batch and options[opt.TAG_CREATION] == "batch":
            notes += afterwards("the tag of the batch was not made", self._batch(latest))
        looks = after_expiry or options[opt.TAG_TIME] is not None
        if ends_tags and looks and options[opt.TAG_TIME_EXPIRE]:
            notes += afterwards("tags stay whose time to live is over", self.lifetimes.expire)
        return tuple(notes)

    def after_rewrite(self, result: RewriteResult) -> RewriteResult:
        """Do the same after the commits of a rewrite, which Paimon's writers leave to it in a `write-only` table."""
        if not result.instants or result.dry_run:
            return result
        notes = self.run(self.tags.history.latest(), of_batch=False, ends_tags=True, after_expiry=False)
        return replace(result, notes=(*result.notes, *notes))

    def _batch(self, latest: Snapshot) -> Callable[[], None]:
        """A function that renews the tag of a batch write."""

        def renew() -> None:
            options = self.tags.options
            day = wall_clock(latest.time_millis, process_zone(options))
            name = options[opt.TAG_BATCH_NAME] or f"{_OF_BATCHES}{day:%Y-%m-%d}"
            existing = self.tags.read(name)
            if existing is None or existing.snapshot.id < latest.id:
                self.tags.renew(name, latest)
            self._remove_surplus()

        return renew

    def _remove_surplus(self) -> None:
        """Remove the oldest tags of batches beyond `tag.num-retained-max`. Paimon counts tags that were made by hand
        too, and removes them."""
        most = self.tags.options[opt.TAG_MAX]
        if most is None:
            return
        tags = self.tags.read_many([name for name in self.tags.history.tags() if name.startswith(_OF_BATCHES)])
        oldest_first = sorted(tags, key=lambda name: (tags[name].snapshot.id, name))
        for name in oldest_first[: max(len(oldest_first) - most, 0)]:
            self.tags.delete(name)
