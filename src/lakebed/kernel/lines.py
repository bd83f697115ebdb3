"""Files of lines that several processes add to at once: audits and logs."""

from __future__ import annotations

import os

from lakebed.errors import StorageError, UsageError


def check_lines(file: str, what: str) -> None:
    """UsageError where lines cannot be added to a file, `what` in words. It is made where it is not there."""
    try:
        _append(file, b"")
    except OSError as error:
        raise UsageError(
            f"cannot write the {what} {file}",
            why=error.strerror or str(error),
            todo="Name a file in a folder that exists",
        ) from error


def add_line(file: str, line: str) -> None:
    """Add a line in one piece, so that two processes at once never mix theirs. StorageError when the disk refuses."""
    try:
        _append(file, f"{line}\n".encode())
    except OSError as error:
        raise StorageError(
            f"cannot add a line to {file}", why=error.strerror or str(error), todo="Make room there, or name another"
        ) from error


def _append(file: str, data: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
