"""Branches of a table: made of a tag or empty, removed, and the main branch put where another one is.

Rules: Paimon's FileSystemBranchManager. A branch has its own schemas, snapshots and tags; data files and manifests stay
where they are. The order is ours, so that a run that died can be repeated:

- A branch that is being made is noted in lakebed's own folder. Its newest schema comes after its snapshot and tag, so
  the branch is not there before they are.
- A fast-forward keeps the snapshots that both branches have. The others of the target go, newest first, before those of
  the branch come, oldest first. So at each moment the newest snapshot that is there is whole. Where a writer or
  an expiry is found at work once the others are gone, they come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lakebed.errors import (
    CommitConflictError,
    CommitUnknownError,
    NotInHistoryError,
    StorageError,
    UnsupportedError,
    UsageError,
)
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.snapshot_json import Snapshot, snapshot_from_json, snapshot_to_json
from lakebed.formats.paimon.commit.claim import write_earliest, write_hints
from lakebed.formats.paimon.journal import expiring
from lakebed.formats.paimon.layout import (
    MAIN_BRANCH,
    OWN_FOLDER,
    branch_prefix,
    numbered,
    schema_path,
    snapshot_path,
    tag_path,
)
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.snapshot_files import LATEST
from lakebed.kernel.commit.claim import claim
from lakebed.kernel.commit.turns import turn
from lakebed.kernel.files import PutOutcome
from lakebed.kernel.options import Options

_TAG = "tag:"


@dataclass(frozen=True, slots=True)
class Branches:
    """Makes, removes and follows branches of a table. `history` is that of the branch that is open."""

    history: History

    def create(self, name: str, at: object = None) -> None:
        """Make a branch of "tag:NAME", or with None an empty one that has the newest schema.

        UsageError for a name that is in use or cannot be one, and for another position; NotInHistoryError when there
        is no such tag. A call that died is finished by the same call.
        """
        self._refuse_catalogs()
        _check(name, self.history.store.location)
        tag = self._tag_name(at)
        store, note, note_text = self.history.store, _note(name), (tag or "").encode()
        begun = self._read_if_there(note)
        if begun is None and name in self.history.branches():
            raise self._in_use(name)
        if begun not in (None, note_text):
            raise UsageError(
                f"branch {name!r} is being made of another tag",
                table=store.location,
                why="a call that made it died or is at work",
                todo=f"Repeat that call, or delete branch {name!r} first",
            )
        files = self._files(name, tag)
        if begun is not None:
            files = self._missing_files(name, files)
        if begun is None and claim(store, note, note_text) is not PutOutcome.CREATED:
            raise _unknown(f"branch {name!r} was made", store.location)
        if begun is None and name in self.history.branches():  # somebody else was faster, from begin to end
            store.delete(note)
            raise self._in_use(name)
        for path, data in files:
            if claim(store, path, data) is PutOutcome.UNKNOWN:
                raise _unknown(f"branch {name!r} was made", store.location)
        with suppress(StorageError):  # the branch is there
            store.delete(note)

    def delete(self, name: str, options: Options) -> None:
        """Remove a branch with its snapshots and tags. NotInHistoryError when there is none of that name, UsageError
        for the branch that is open and for the one that reads fall back to.

        Files that only the branch needs stay: they are orphans.
        """
        self._refuse_catalogs()
        store = self.history.store
        _check(name, store.location)
        if name in (self.history.branch, options[opt.FALLBACK_BRANCH]):
            raise UsageError(
                f"branch {name!r} is in use",
                table=store.location,
                why="it is the open branch" if name == self.history.branch else f"{opt.FALLBACK_BRANCH.key} is it",
                todo="Open the main branch, and remove the option",
            )
        if name not in self.history.branches() and not store.exists(_note(name)):
            raise self._missing(name)
        schemas = f"{branch_prefix(name)}schema"
        store.delete_many(info.path for info in store.list(schemas).files)  # without one there is no branch
        store.delete_folder(branch_prefix(name).rstrip("/"))
        store.delete(_note(name))

    def fast_forward(self, name: str) -> None:
        """Put the branch that is open where the branch `name` is: it gets its snapshots, schemas and tags, and loses
        its own from the branch's oldest snapshot on.

        NotInHistoryError for a branch that is not there or has no snapshot, CommitConflictError when another writer
        commits meanwhile. A call that died is finished by the same call.
        """
        self._refuse_catalogs()
        history, store = self.history, self.history.store
        _check(name, store.location)
        if name == history.branch:
            raise UsageError(f"branch {name!r} is the one that is open", table=store.location, todo="Open another one")
        if name not in history.branches():
            raise self._missing(name)
        source = history.on_branch(name)
        oldest = source.earliest()
        if oldest is None:
            raise NotInHistoryError(f"branch {name!r} has no snapshot", table=store.location, todo="Commit to it first")
        with turn(store.location):
            self._follow(name, oldest)

    def _follow(self, name: str, oldest: Snapshot) -> None:
        """Put the branch that is open where another one is, from that one's oldest snapshot on."""
        history, store = self.history, self.history.store
        theirs = self._bytes(name, "snapshot", lambda number: number >= oldest.id)
        ours = self._bytes(history.branch, "snapshot", lambda number: number >= oldest.id)
        replaced = {number: data for number, data in ours.items() if data != theirs.get(number)}
        self._hint_before(list(replaced))
        replaced = {number: replaced[number] for number in history.snapshot_ids() if number in replaced}
        store.delete_in_order(snapshot_path(history.branch, number) for number in sorted(replaced, reverse=True))
        newcomers = [n for n in history.snapshot_ids() if n >= oldest.id and (n not in ours or n in replaced)]
        if newcomers or expiring(history):
            for number in sorted(replaced):
                store.put_if_absent(snapshot_path(history.branch, number), replaced[number])
            write_hints(store, history.branch, history.snapshot_ids()[-1], first=False)
            raise self._conflict("another writer or an expiry is at work; the branch is as it was")
        self._replace_tags_and_schemas(name, oldest)
        for number in sorted(theirs):
            self._put(snapshot_path(history.branch, number), theirs[number])
        numbers = history.snapshot_ids()
        if numbers[-1] != max(theirs):
            raise self._conflict("another writer committed meanwhile")
        write_hints(store, history.branch, numbers[-1], first=False)
        write_earliest(store, history.branch, numbers[0])
        history.forget_schemas()
        history.committed(snapshot_from_json(theirs[numbers[-1]]))

    def _files(self, name: str, tag: str | None) -> list[tuple[str, bytes]]:
        """The files of a new branch, in the order in which they are written: the newest schema decides."""
        history, store = self.history, self.history.store
        files: list[tuple[str, bytes]] = []
        if tag is None:
            newest = history.latest_schema().id
        else:
            snapshot = history.tag(tag)
            files.append((tag_path(name, tag), store.read(tag_path(history.branch, tag))))
            files.append((snapshot_path(name, snapshot.id), snapshot_to_json(snapshot)))
            newest = snapshot.schema_id
        ids = [number for number in reversed(history.schema_ids()) if number <= newest]
        schemas = store.read_many([schema_path(history.branch, number) for number in ids])
        return files + [(schema_path(name, number), data) for number, data in zip(ids, schemas, strict=True)]

    def _missing_files(self, name: str, files: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        """What a call that died has left to write. Where the branch is there, its snapshot and tag may have gone since:
        only schemas are filled in."""
        schemas = [(path, data) for path, data in files if path.startswith(f"{branch_prefix(name)}schema/")]
        return schemas if self.history.store.exists(schemas[0][0]) else files

    def _bytes(self, branch: str, kind: str, wanted: Callable[[int], bool]) -> dict[int, bytes]:
        """The numbered files of a branch's folder. One that goes meanwhile is left out."""
        folder = f"{branch_prefix(branch)}{kind}"
        ids = [number for number in numbered(self.history.store.list(folder).names, kind) if wanted(number)]
        contents = self._read_together([f"{folder}/{kind}-{number}" for number in ids])
        return {number: data for number, data in zip(ids, contents, strict=True) if data is not None}

    def _hint_before(self, replaced: Sequence[int]) -> None:
        """Make the hint LATEST name a snapshot that stays, before later ones go."""
        if not replaced:
            return
        store, branch = self.history.store, self.history.branch
        staying = [number for number in self.history.snapshot_ids() if number < min(replaced)]
        if staying:
            write_hints(store, branch, staying[-1], first=False)
        else:
            store.delete(f"{branch_prefix(branch)}snapshot/{LATEST}")

    def _replace_tags_and_schemas(self, name: str, oldest: Snapshot) -> None:
        """Of the tags and schemas of snapshots from `oldest` on, leave those that the other branch has. Older schemas
        are filled in. At each moment a tag that is there has its schema."""
        history, store, source = self.history, self.history.store, self.history.on_branch(name)
        tags = source.tags()
        bytes_of = dict(zip(tags, self._read_together([tag_path(name, tag) for tag in tags]), strict=True))
        theirs = {tag: data for tag, data in bytes_of.items() if data is not None}
        ours = {tag: snapshot for tag, snapshot in history.tagged().items() if snapshot.id >= oldest.id}
        paths = {tag: tag_path(history.branch, tag) for tag in {*ours, *theirs}}
        own = dict(zip(ours, self._read_together([paths[tag] for tag in ours]), strict=True))
        store.delete_many(paths[tag] for tag in ours if theirs.get(tag) != own[tag])
        self._replace_schemas(name, oldest.schema_id)
        store.write_many({paths[tag]: data for tag, data in theirs.items() if own.get(tag) != data})

    def _replace_schemas(self, name: str, oldest: int) -> None:
        branch = self.history.branch
        theirs = self._bytes(name, "schema", lambda number: True)
        ours = self._bytes(branch, "schema", lambda number: True)
        changed = {
            schema_path(branch, number): data
            for number, data in theirs.items()
            if (number >= oldest or number not in ours) and ours.get(number) != data
        }
        self.history.store.write_many(changed)
        self.history.store.delete_in_order(
            schema_path(branch, number) for number in sorted(ours, reverse=True) if number > max(theirs)
        )

    def _put(self, path: str, data: bytes) -> None:
        store = self.history.store
        outcome = store.put_if_absent(path, data)
        if outcome is PutOutcome.EXISTS and store.read(path) != data:
            raise self._conflict("another writer committed meanwhile")
        if outcome is PutOutcome.UNKNOWN:
            raise _unknown("the branch has all snapshots", store.location)

    def _tag_name(self, at: object) -> str | None:
        if at is None:
            return None
        if isinstance(at, str) and at.startswith(_TAG):
            return at.removeprefix(_TAG)
        raise UsageError(
            f"a branch is not made of {at!r}",
            table=self.history.store.location,
            why="only a tag keeps the files of its snapshot, for Paimon's engines too",
            todo='Tag the snapshot, and give "tag:NAME"',
        )

    def _read_together(self, paths: Iterable[str]) -> Sequence[bytes | None]:
        return self.history.store.together(self._read_if_there, paths)

    def _read_if_there(self, path: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return self.history.store.read(path)
        return None

    def _refuse_catalogs(self) -> None:
        if self.history.publisher is not None:
            raise UnsupportedError(
                "lakebed does not change branches of this table",
                table=self.history.store.location,
                why="its catalog keeps them",
                todo="Use Paimon's own engines",
            )

    def _in_use(self, name: str) -> UsageError:
        table = self.history.store.location
        return UsageError(f"there is already a branch {name!r}", table=table, todo="Delete it first")

    def _missing(self, name: str) -> NotInHistoryError:
        branches = ", ".join(self.history.branches()) or "none"
        return NotInHistoryError(
            f"there is no branch {name!r}", table=self.history.store.location, todo=f"Branches: {branches}"
        )

    def _conflict(self, why: str) -> CommitConflictError:
        return CommitConflictError(
            "the branch was not fast-forwarded to the end",
            table=self.history.store.location,
            why=why,
            todo="Stop the writers of both branches and fast-forward again",
        )


def _note(name: str) -> str:
    """The path of the note that a branch is being made: the tag of which it is made."""
    return f"{OWN_FOLDER}/branches/{name}"


def _check(name: str, table: str) -> None:
    """UsageError for a name that cannot be that of a branch."""
    if name == MAIN_BRANCH or not name.strip() or name.isdigit() or "/" in name or "\\" in name or "\0" in name:
        raise UsageError(
            f"{name!r} is not the name of a branch beside {MAIN_BRANCH}",
            table=table,
            todo="Use letters, not a number or a path",
        )


def _unknown(what: str, table: str) -> CommitUnknownError:
    return CommitUnknownError(f"the store does not say whether {what}", table=table, todo="Repeat the call")
