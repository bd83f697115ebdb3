"""Tags whose time to live is over go.

Rules: Paimon's TagTimeExpire. The time at which a tag was made is the wall clock of the process that made it, so the
wall clock of this process tells its age; where the store's clock is behind ours, that one does.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from lakebed.formats.paimon.layout import OWN_FOLDER, tag_path
from lakebed.formats.paimon.tags.names import Tags
from lakebed.formats.paimon.tags.removal import files_of_tag
from lakebed.kernel import clock
from lakebed.kernel.files.age import certain_now
from lakebed.model.upkeep import ExpireResult, Skipped


@dataclass(frozen=True, slots=True)
class TagLifetimes:
    """Ends the tags of a branch."""

    tags: Tags

    def expire(self, dry_run: bool = False) -> ExpireResult:
        """Remove the tags whose time to live is over, and the files that only they need. `kept` are the others."""
        history = self.tags.history
        names = history.tags()
        tags = self.tags.read_many(names)
        ends = {name: tag.ends for name, tag in tags.items()}
        now = clock.moment()
        due = [name for name, end in ends.items() if end is not None and now > end]
        if due and not dry_run:
            now = datetime.datetime.fromtimestamp(certain_now(history.store, OWN_FOLDER))
            due = [name for name in due if now > (ends[name] or now)]
        kept = [
            Skipped(f"tag {name!r}", _reason(name in tags, ends.get(name))) for name in sorted(names) if name not in due
        ]
        paths: list[str] = []
        for name in sorted(due, key=lambda name: tags[name].snapshot.id):
            if dry_run:
                paths += files_of_tag(history, self.tags.schema, self.tags.options, name)
            else:
                paths += self.tags.delete(name)
        paths += [tag_path(history.branch, name) for name in due]
        return ExpireResult(tuple(due), tuple(dict.fromkeys(paths)), tuple(kept), dry_run)


def _reason(is_readable: bool, end: datetime.datetime | None) -> str:
    if not is_readable:
        return "it cannot be read"
    return "it has no time to live" if end is None else f"it lives until {end.isoformat(' ', 'seconds')}"
