"""The border between bytes and values: what a decoder may raise, in the words of `lakebed.errors`.

A decoder meets bytes that a disk, a network or a hostile hand made, and what it raises then depends on the library and
on the place: KeyError, struct.error, RecursionError, ArrowInvalid, a bare Exception from Rust. Every codec works inside
`decoding`, which makes CorruptError of all that, with the file and the place. Trouble of the machine (descriptors,
memory, disk, permissions) can show in the same calls and says nothing about the bytes: it becomes StorageError.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import CorruptError, LakebedError, StorageError, UnsupportedError, first_line

_REMEDIES = {
    errno.EMFILE: "Raise the limit of open files (ulimit -n), or use fewer threads",
    errno.ENFILE: "Close other programs, or raise the system's limit of open files",
    errno.ENOMEM: "Give the process more memory, or use fewer threads",
    errno.ENOSPC: "Make room on the disk",
    errno.EDQUOT: "Make room within the quota of the disk",
    errno.EFBIG: "Raise the limit of the size of a file (ulimit -f)",
    errno.EACCES: "Check the permissions",
    errno.EPERM: "Check the permissions",
    errno.EROFS: "Mount the file system for writing",
    errno.EIO: "Check the disk",
}
_OF_BYTES = frozenset({errno.EINVAL, errno.ESPIPE, errno.EOVERFLOW, errno.EDOM, errno.ERANGE})
"""What the system answers to an offset or a length that cannot be: the bytes named it."""
_NUMBER = re.compile(r"(?i)\b(?:os error|errno:?) (\d+)")
_ALLOCATION = re.compile(r"(?i)(?:malloc|allocat\w*|resize)\D{0,40}?(\d{2,})")
IMPOSSIBLE_ALLOCATION = 1 << 40
"""Bytes. A single allocation of more than that was asked for by damaged bytes, not by rows."""
_WHY_CHARACTERS = 300
_RESTORE = "Restore the file from a copy"


@contextmanager
def decoding(
    what: str, *, file: str = "", table: str = "", instant: str = "", todo: str = "", passing: bool = True
) -> Iterator[None]:
    """Whatever goes wrong inside is a LakebedError that knows its file: `what` says what cannot be read.

    CorruptError for what bytes can do to a decoder, StorageError for trouble of the machine. A LakebedError keeps its
    kind and gets the places that it lacks. FileNotFoundError passes, since only the caller knows what a missing file
    means; `passing` False makes CorruptError of it too.
    """
    try:
        yield
    except FileNotFoundError as error:
        if passing:
            raise
        raise decoding_error(error, what, file=file, table=table, instant=instant, todo=todo) from error
    except LakebedError as error:
        error.file, error.table = error.file or file, error.table or table
        error.instant = error.instant or instant
        if isinstance(error, CorruptError):
            error.todo = error.todo or todo
        raise
    except Exception as error:
        raise decoding_error(error, what, file=file, table=table, instant=instant, todo=todo) from error
    except BaseException as error:
        if not _is_panic(error):
            raise
        raise decoding_error(error, what, file=file, table=table, instant=instant, todo=todo) from error


@contextmanager
def writing(what: str, *, file: str = "", table: str = "") -> Iterator[None]:
    """Trouble of the machine inside is StorageError; every other exception passes."""
    try:
        yield
    except LakebedError:
        raise
    except Exception as error:
        trouble = machine_trouble(error)
        if trouble is None:
            raise
        raise StorageError(what, file=file, table=table, why=trouble[0], todo=trouble[1]) from error


def decoding_error(
    error: BaseException, what: str, *, file: str = "", table: str = "", instant: str = "", todo: str = ""
) -> LakebedError:
    """The error to raise for what a decoder raised."""
    if isinstance(error, LakebedError):
        return error
    trouble = machine_trouble(error)
    if trouble is not None:
        why, remedy = trouble
        return StorageError(what, file=file, table=table, instant=instant, why=why, todo=remedy)
    if isinstance(error, (pa.ArrowNotImplementedError, NotImplementedError)):
        return UnsupportedError(what, file=file, table=table, instant=instant, why=reason(error), todo=todo)
    return CorruptError(what, file=file, table=table, instant=instant, why=reason(error), todo=todo)


@dataclass(frozen=True, slots=True)
class Stated:
    """What metadata state of a file: its bytes, its rows; a negative number where they do not."""

    size: int = -1
    rows: int = -1

    def check_size(self, size: int, what: str = "a file", **fields: str) -> None:
        """CorruptError for a file of other bytes."""
        if 0 <= self.size != size:
            raise _unlike(what, size, self.size, "bytes", fields)

    def check_rows(self, rows: int, what: str = "a file", **fields: str) -> None:
        """CorruptError for a file of other rows."""
        if 0 <= self.rows != rows:
            raise _unlike(what, rows, self.rows, "rows", fields)


UNSTATED = Stated()


def _unlike(what: str, found: int, stated: int, unit: str, fields: dict[str, str]) -> CorruptError:
    why = f"it has {found} {unit}, the table's metadata say {stated}"
    return CorruptError(f"{what} is cut short or damaged", why=why, todo=_RESTORE, **fields)


def machine_trouble(error: BaseException) -> tuple[str, str] | None:
    """(what the machine lacks, what to do), None when it is not the machine's trouble. Rust's libraries say it in text
    only."""
    if isinstance(error, MemoryError):
        asked = _ALLOCATION.search(str(error))
        if asked is not None and int(asked[1]) > IMPOSSIBLE_ALLOCATION:
            return None
        return str(error) or "there is too little memory", _REMEDIES[errno.ENOMEM]
    if isinstance(error, ImportError):
        return str(error), "Give the process more memory, or install lakebed's libraries anew"
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (named := _NUMBER.search(str(error))):
        number = int(named[1])
    if number is None or number in _OF_BYTES:
        return None
    return os.strerror(number), _REMEDIES.get(number, "")


def reason(error: BaseException) -> str:
    """What an error says, in one line of bounded length; with its name where its text says little alone."""
    text, kind = first_line(error)[:_WHY_CHARACTERS], type(error).__name__
    if text == kind or (isinstance(error, (ValueError, OSError)) and not isinstance(error, UnicodeError)):
        return text
    return f"{kind}: {text}"


def _is_panic(error: BaseException) -> bool:
    """Whether a library in Rust gave up; its exception is none of Python's Exceptions."""
    return type(error).__name__ == "PanicException"
