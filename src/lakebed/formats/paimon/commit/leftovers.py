"""Removing the files of messages that will not be committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from lakebed.errors import StorageError
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.layout import index_path
from lakebed.kernel.files import Store

T = TypeVar("T")
R = TypeVar("R", bound=PaimonMessage | tuple[PaimonMessage, ...])


@contextmanager
def removed_on_failure(store: Store, work: Callable[[T], R]) -> Iterator[Callable[[T], R]]:
    """The work of tasks, for an engine. When the block fails, the files of all tasks that ended well go, also of those
    whose result nobody took any more. What tasks in other processes made stays until orphan-file removal."""
    remembered = _Remembered(work)
    try:
        yield remembered
    except BaseException:
        remove_files(store, remembered.messages)
        raise


@dataclass(frozen=True, slots=True)
class _Remembered(Generic[T, R]):
    """Work that keeps its messages, where it runs in this process."""

    work: Callable[[T], R]
    messages: list[PaimonMessage] = field(default_factory=list)

    def __call__(self, task: T) -> R:
        done = self.work(task)
        self.messages.extend(done if isinstance(done, tuple) else (done,))
        return done


def remove_files(store: Store, messages: Iterable[PaimonMessage], keep: Iterable[str] = ()) -> None:
    """Remove the files that the writers of messages made, except those named in `keep`. Files that cannot be removed
    stay until orphan-file removal."""
    kept = set(keep)
    paths: list[str] = []
    for message in messages:
        for file in message.written_files():
            if file.file_name not in kept:
                paths += [f"{message.folder}/{name}" for name in file.names]
        paths += [index_path(entry.file_name) for entry in message.written_index_files() if entry.file_name not in kept]
    with suppress(StorageError):
        store.delete_many(paths)
