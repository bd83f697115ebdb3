"""Tags of a branch: made and removed, with callbacks.

Rules: Paimon's TagManager. A tag is the snapshot's JSON under the tag's name, which is claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lakebed.errors import CommitUnknownError, NotInHistoryError, UsageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot, snapshot_to_json
from lakebed.formats.paimon.layout import tag_path
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.commit.callbacks import TagCallback, call_each, load_callbacks
from lakebed.kernel.files import PutOutcome
from lakebed.kernel.options import Options
from lakebed.redaction import redacting_logger

_LOG = redacting_logger("lakebed.paimon")


@dataclass(frozen=True, slots=True)
class Tags:
    """Makes and removes tags of a branch. `given` are the options that the table was opened with."""

    history: History
    schema: TableSchema
    options: Options
    given: Mapping[str, str]

    def create(self, name: str, tagged: Snapshot | None) -> None:
        """Name a snapshot. UsageError for a name that is in use or cannot be one, NotInHistoryError without a
        snapshot."""
        store = self.history.store
        if tagged is None:
            raise NotInHistoryError("there is no snapshot to tag", table=store.location, todo="Commit something first")
        if "/" in name or name.isdigit():
            raise UsageError(
                f"{name!r} cannot name a tag", table=store.location, todo="Use letters, not a number or a path"
            )
        callbacks = self._callbacks()  # one that cannot be made fails before there is a tag
        outcome = store.put_if_absent(tag_path(self.history.branch, name), snapshot_to_json(tagged))
        if outcome is PutOutcome.EXISTS:
            raise UsageError(f"there is already a tag {name!r}", table=store.location, todo="Delete it first")
        if outcome is PutOutcome.UNKNOWN:
            raise CommitUnknownError(
                "the store does not say whether the tag was created", table=store.location, todo="Try again"
            )
        self._call(callbacks, lambda callback: callback.notify_creation(name, tagged.id))

    def delete(self, name: str) -> None:
        """Remove a tag that is there."""
        callbacks = self._callbacks()
        self.history.store.delete(tag_path(self.history.branch, name))
        self._call(callbacks, lambda callback: callback.notify_deletion(name))

    def _call(self, callbacks: Sequence[TagCallback], act: Callable[[TagCallback], None]) -> None:
        """Call the tag callbacks, best effort. The log says which failed."""
        for note in call_each(callbacks, act):
            _LOG.warning("%s: %s", self.history.store.location, note)

    def _callbacks(self) -> list[TagCallback]:
        key = opt.TAG_CALLBACKS
        opt.refuse_stored_callbacks(self.schema.options, self.given, key.key, self.history.store.location)
        raw = {name.lower(): value for name, value in self.options.raw.items()}
        return load_callbacks(self.options[key], lambda name: raw.get(f"tag.callback.{name}.param".lower()), key.key)
