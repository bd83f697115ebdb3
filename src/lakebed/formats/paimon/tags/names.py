"""Tags of a branch: made, moved, renamed and removed, with callbacks.

Rules: Paimon's TagManager. A tag is the snapshot's JSON under the tag's name, which is claimed.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lakebed.errors import CommitUnknownError, CorruptError, NotInHistoryError, UsageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon import tag_options
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.codec.tag_json import Tag, tag_from_json, tag_to_json
from lakebed.formats.paimon.layout import tag_path
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.tag_periods import TagPeriods
from lakebed.formats.paimon.tags.removal import release_files, remove_tag
from lakebed.formats.paimon.tags.success_file import SuccessFile
from lakebed.kernel import clock
from lakebed.kernel.commit.callbacks import TagCallback, call_each, load_callbacks
from lakebed.kernel.commit.claim import ask_again
from lakebed.kernel.files import PutOutcome
from lakebed.kernel.options import Options
from lakebed.redaction import redacting_logger
from lakebed.verbs.arguments import Span, checked_span

_LOG = redacting_logger("lakebed.paimon")


@dataclass(frozen=True, slots=True)
class Tags:
    """Makes and removes tags of a branch. `given` are the keys of the options that the caller gave."""

    history: History
    schema: TableSchema
    options: Options
    given: Iterable[str]

    def create(self, name: str, tagged: Snapshot | None, time_retained: Span = None, is_newest: bool = False) -> None:
        """Name a snapshot. `time_retained` is how long the tag lives; None: as `tag.default-time-retained` says. One
        that `is_newest` is not looked for afterwards: it does not expire.

        UsageError for a name that is in use or cannot be one, NotInHistoryError without a snapshot.
        """
        store, tagged = self.history.store, self._checked(name, tagged)
        lifetime = self._lifetime if time_retained is None else checked_span(time_retained)
        self._refuse_second(name, tagged)
        callbacks = self.callbacks()  # one that cannot be made fails before there is a tag
        outcome = self.put(name, tagged, lifetime)
        if outcome is PutOutcome.EXISTS:
            raise self._in_use(name)
        if outcome is PutOutcome.UNKNOWN:
            raise self._unknown("created")
        if not is_newest:
            self._check_held(name, tagged, lambda: store.delete(tag_path(self.history.branch, name)))
        self._call(callbacks, lambda callback: callback.notify_creation(name, tagged.id))

    def replace(self, name: str, tagged: Snapshot | None, time_retained: Span = None, is_newest: bool = False) -> None:
        """Put a tag on another snapshot, or make it where there is none. Files that only it needed before go.

        The tag that moves lives as long as `time_retained` says; None: until it is deleted. No callback is told of it.
        Both are as in Paimon's replaceTag. Errors as of `create`; the tag is where it was then.
        """
        path, store, tagged = tag_path(self.history.branch, name), self.history.store, self._checked(name, tagged)
        try:
            before = store.read(path)
        except FileNotFoundError:
            return self.create(name, tagged, time_retained, is_newest)
        self._refuse_second(name, tagged)
        lifetime = checked_span(time_retained)
        tag = Tag(tagged) if lifetime is None else Tag(tagged, clock.moment(), lifetime)

        def move() -> None:
            store.write(path, tag_to_json(tag))
            if not is_newest:
                self._check_held(name, tagged, lambda: store.write(path, before))

        release_files(self.history, self.schema, self.options, name, move)

    def rename(self, name: str, to: str) -> None:
        """Give a tag another name. No callback is told of it, as in Paimon's renameTag.

        NotInHistoryError when there is no tag `name`, UsageError where `to` is in use or cannot name a tag. Where a
        rename stopped half way both names are there, and the same call finishes it.
        """
        store, branch = self.history.store, self.history.branch
        tagged = self._checked(to, self.history.tag(name))
        if to == name:
            return
        self._refuse_second(to, tagged, name)
        data = store.read(tag_path(branch, name))
        outcome = store.put_if_absent(tag_path(branch, to), data)
        if outcome is PutOutcome.UNKNOWN:
            raise self._unknown("renamed")
        if outcome is PutOutcome.EXISTS and store.read(tag_path(branch, to)) != data:
            raise self._in_use(to)
        store.delete(tag_path(branch, name))

    def create_if_free(self, name: str, tagged: Snapshot) -> bool:
        """Name a snapshot, unless the name is in use. Returns whether there is such a tag now."""
        outcome = self.put(name, tagged, self._lifetime)
        if outcome is PutOutcome.CREATED:
            self._call(self.callbacks(), lambda callback: callback.notify_creation(name, tagged.id))
        return outcome is not PutOutcome.UNKNOWN

    def renew(self, name: str, tagged: Snapshot) -> None:
        """Put a tag on a snapshot, wherever it was before."""
        path, store = tag_path(self.history.branch, name), self.history.store
        if store.exists(path):
            self.delete(name)
        if self.put(name, tagged, self._lifetime) is not PutOutcome.UNKNOWN:
            self._call(self.callbacks(), lambda callback: callback.notify_creation(name, tagged.id))

    def put(self, name: str, tagged: Snapshot, lifetime: datetime.timedelta | None) -> PutOutcome:
        """Claim the name of a tag, and tell nobody."""
        tag = Tag(tagged) if lifetime is None else Tag(tagged, clock.moment(), lifetime)
        return self.history.store.put_if_absent(tag_path(self.history.branch, name), tag_to_json(tag))

    def delete(self, name: str) -> tuple[str, ...]:
        """Remove a tag, and the files that only it needs. Returns the paths of those files. NotInHistoryError when
        there is no such tag."""
        if not self.history.store.exists(tag_path(self.history.branch, name)):
            self.history.tag(name)
        callbacks = self.callbacks()
        files = remove_tag(self.history, self.schema, self.options, name)
        self._call(callbacks, lambda callback: callback.notify_deletion(name))
        return files

    def read(self, name: str) -> Tag | None:
        """A tag; None where it is gone, or its file is none of a tag."""
        try:
            return tag_from_json(self.history.store.read(tag_path(self.history.branch, name)))
        except (FileNotFoundError, CorruptError):
            return None

    def read_many(self, names: Sequence[str]) -> dict[str, Tag]:
        """The tags of these names, as `read` reads them."""
        tags = zip(names, self.history.store.together(self.read, names), strict=True)
        return {name: tag for name, tag in tags if tag is not None}

    def callbacks(self) -> list[TagCallback]:
        """The callbacks that options name. OptionError for one that cannot be made, UnsupportedError where only the
        table's schema names them."""
        key = opt.TAG_CALLBACKS
        opt.refuse_stored_callbacks(self.schema.options, self.given, key.key, self.history.store.location)
        raw = {name.lower(): value for name, value in self.options.raw.items()}
        named = load_callbacks(self.options[key], lambda name: raw.get(f"tag.callback.{name}.param".lower()), key.key)
        if self.options[tag_options.TAG_SUCCESS_FILE]:
            named.append(SuccessFile(self.history))
        return named

    def _call(self, callbacks: Sequence[TagCallback], act: Callable[[TagCallback], None]) -> None:
        """Call the tag callbacks, best effort. The log says which failed."""
        for note in call_each(callbacks, act):
            _LOG.warning("%s: %s", self.history.store.location, note)

    def _check_held(self, name: str, tagged: Snapshot, take_back: Callable[[], object]) -> None:
        """Raise NotInHistoryError where nothing else has the snapshot of a tag that was just made, and the error of a
        look that does not tell. The tag is taken back then: one whose files are gone would stop every clean-up. A store
        that fails is asked again."""
        try:
            is_held = ask_again(lambda: self._is_held(name, tagged))
        except Exception:
            ask_again(take_back)
            raise
        if not is_held:
            ask_again(take_back)
            raise self._expired(tagged)

    def _is_held(self, name: str, tagged: Snapshot) -> bool:
        """Whether the snapshot of a new tag is still kept otherwise: it exists itself, or another tag keeps it. A
        process that removes that afterwards sees this tag and keeps its files."""
        if self.history.find(tagged.id) is not None:
            return True
        others = self.read_many([other for other in self.history.tags() if other != name])
        return any(other.snapshot.id == tagged.id for other in others.values())

    @property
    def _lifetime(self) -> datetime.timedelta | None:
        """How long new tags live; None: until they are deleted."""
        millis = self.options[tag_options.TAG_TIME]
        return None if millis is None else datetime.timedelta(milliseconds=millis)

    def _checked(self, name: str, tagged: Snapshot | None) -> Snapshot:
        """The snapshot that a tag is put on. NotInHistoryError when there is none, UsageError for a name that Paimon
        takes for something else."""
        table = self.history.store.location
        if tagged is None:
            raise NotInHistoryError("there is no snapshot to tag", table=table, todo="Commit something first")
        if "/" in name or name.isdigit():
            raise UsageError(f"{name!r} cannot name a tag", table=table, todo="Use letters, not a number or a path")
        return tagged

    def _expired(self, tagged: Snapshot) -> NotInHistoryError:
        return NotInHistoryError(
            f"snapshot {tagged.id} has expired meanwhile",
            table=self.history.store.location,
            instant=str(tagged.id),
            todo="Tag a newer one",
        )

    def _in_use(self, name: str) -> UsageError:
        table = self.history.store.location
        return UsageError(f"there is already a tag {name!r}", table=table, todo="Delete it first, or replace it")

    def _unknown(self, done: str) -> CommitUnknownError:
        table = self.history.store.location
        return CommitUnknownError(f"the store does not say whether the tag was {done}", table=table, todo="Try again")

    def _refuse_second(self, name: str, tagged: Snapshot, instead_of: str = "") -> None:
        """UsageError for the name of an automatic tag on a snapshot that has one: Paimon's engines fail on both.
        `instead_of` is a name that the tag gives up."""
        if self.options[tag_options.TAG_CREATION] not in ("process-time", "watermark"):
            return
        periods = TagPeriods.of(self.options)
        if periods.start(name) is None:
            return
        automatic = [other for other in self.history.tags() if periods.start(other) is not None]
        for other, tag in self.read_many(automatic).items():
            if tag.snapshot.id == tagged.id and other not in (name, instead_of):
                raise UsageError(
                    f"{name!r} would be a second automatic tag of snapshot {tagged.id}",
                    table=self.history.store.location,
                    why=f"it is named like one, and the snapshot has {other!r}",
                    todo="Give it another name",
                )
