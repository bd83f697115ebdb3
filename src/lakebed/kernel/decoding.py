"""Turn whatever a decoder raises into an error of `lakebed.errors`.

A decoder may meet bytes that a disk, a network or an attacker damaged. What it then raises depends on the library and
the place: KeyError, struct.error, RecursionError, ArrowInvalid, a bare Exception from Rust. Every codec runs inside
`decoding`, which turns all of these into CorruptError, with the file. Failures of the machine (file descriptors,
memory, disk, permissions) can occur in the same calls and say nothing about the bytes: they become StorageError.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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
"""Errors for an impossible offset or length. The bytes named it, so the machine is not at fault."""
_NUMBER = re.compile(r"(?i)\b(?:os error|errno:?) (\d+)")
_ALLOCATION = re.compile(r"(?i)(?:malloc|allocat\w*|resize)\D{0,40}?(\d{2,})")
IMPOSSIBLE_ALLOCATION = 1 << 40
"""In bytes. Only damaged bytes ask for a larger single allocation, never rows."""
_WHY_CHARACTERS = 300
_HALF = re.compile(rb"(?i)\\ud[89a-f]")
_HALF_IN_TEXT = re.compile(r"(?i)\\ud[89a-f]|[\ud800-\udfff]")
"""How JSON spells one half of a surrogate pair, in bytes and in text."""
RESTORE = "Restore the file from a copy"
"""The default advice for a file with damaged bytes."""


@contextmanager
def decoding(
    what: str, *, file: str = "", table: str = "", instant: str = "", todo: str = "", passing: bool = True
) -> Iterator[None]:
    """Raise every error of the block as a LakebedError that names the file. `what` says what cannot be read.

    CorruptError when the bytes are at fault, StorageError when the machine is, UnsupportedError for what a library does
    not implement. A LakebedError keeps its type and gets the fields that it lacks. Without `todo` the remedy for
    damaged bytes is `RESTORE`. FileNotFoundError passes, since only the caller knows what a missing file means; with
    `passing` False it becomes CorruptError too.
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
        if isinstance(error, CorruptError) and error.todo in ("", RESTORE):
            error.todo = todo or RESTORE
        raise
    except Exception as error:
        raise decoding_error(error, what, file=file, table=table, instant=instant, todo=todo) from error
    except BaseException as error:
        if not _is_panic(error):
            raise
        raise decoding_error(error, what, file=file, table=table, instant=instant, todo=todo) from error


@contextmanager
def writing(what: str, *, file: str = "", table: str = "") -> Iterator[None]:
    """Raise a failure of the machine inside the block as StorageError. Every other exception passes."""
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
    """The error to raise in place of what a decoder raised."""
    if isinstance(error, LakebedError):
        return error
    trouble = machine_trouble(error)
    if trouble is not None:
        why, remedy = trouble
        return StorageError(what, file=file, table=table, instant=instant, why=why, todo=remedy)
    if isinstance(error, (pa.ArrowNotImplementedError, NotImplementedError)):
        return UnsupportedError(what, file=file, table=table, instant=instant, why=reason(error), todo=todo)
    return CorruptError(what, file=file, table=table, instant=instant, why=reason(error), todo=todo or RESTORE)


@dataclass(frozen=True, slots=True)
class Stated:
    """The size in bytes and the number of rows that metadata states for a file; negative where it states none."""

    size: int = -1
    rows: int = -1

    def check_size(self, size: int, what: str = "a file", **fields: str) -> None:
        """Raise CorruptError when the file has another size."""
        if 0 <= self.size != size:
            raise _unlike(what, size, self.size, "bytes", fields)

    def check_rows(self, rows: int, what: str = "a file", **fields: str) -> None:
        """Raise CorruptError when the file has another number of rows."""
        if 0 <= self.rows != rows:
            raise _unlike(what, rows, self.rows, "rows", fields)


UNSTATED = Stated()


def _unlike(what: str, actual: int, stated: int, unit: str, fields: dict[str, str]) -> CorruptError:
    why = f"it has {actual} {unit}, the table's metadata say {stated}"
    return CorruptError(f"{what} is cut short or damaged", why=why, todo=RESTORE, **fields)


def parsed_json(data: bytes | bytearray | memoryview | str) -> Any:
    """The value that a JSON document has.

    JSON can spell half of a character (`\\ud800`), which no file name, no UTF-8 text and no Arrow column can hold. It
    would fail later, wherever the text is used. ValueError for such a text and for what is not JSON in UTF-8,
    RecursionError for a document that nests too deeply: work inside `decoding`.
    """
    if isinstance(data, memoryview):
        data = bytes(data)
    value = json.loads(data)
    if isinstance(data, str):
        has_half = _HALF_IN_TEXT.search(data) is not None
    else:
        has_half = _HALF.search(data) is not None or (b"\xed" in data and _has_encoded_half(data))
    if has_half:
        json.dumps(value, ensure_ascii=False).encode()  # two halves of one character are whole again
    return value


def machine_trouble(error: BaseException) -> tuple[str, str] | None:
    """What the machine lacks and what to do about it, None when the machine is not at fault.

    Libraries in Rust give the number of the error only in their text.
    """
    if isinstance(error, MemoryError):
        asked = _ALLOCATION.search(str(error))
        if asked is not None and int(asked[1]) > IMPOSSIBLE_ALLOCATION:
            return None
        return str(error) or "there is not enough memory", _REMEDIES[errno.ENOMEM]
    if isinstance(error, ImportError):
        return str(error), "Give the process more memory, or reinstall lakebed's dependencies"
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (named := _NUMBER.search(str(error))):
        number = int(named[1])
    if number is None or number in _OF_BYTES:
        return None
    return os.strerror(number), _REMEDIES.get(number, "")


def reason(error: BaseException) -> str:
    """What an error says, in one line of bounded length. The name of its type comes first where the text alone says
    little."""
    text, kind = first_line(error)[:_WHY_CHARACTERS], type(error).__name__
    if text == kind or (isinstance(error, (ValueError, OSError)) and not isinstance(error, UnicodeError)):
        return text
    return f"{kind}: {text}"


def _is_panic(error: BaseException) -> bool:
    """Whether a library in Rust panicked. Its exception is not a subclass of Exception."""
    return type(error).__name__ == "PanicException"


def _has_encoded_half(data: bytes | bytearray) -> bool:
    """Whether the bytes have half of a character spelled as if it were one of UTF-8, which `json.loads` lets pass."""
    try:
        data.decode(json.detect_encoding(bytes(data)))
    except UnicodeDecodeError:
        return True
    return False
