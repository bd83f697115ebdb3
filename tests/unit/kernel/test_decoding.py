"""The border of the codecs: damage is CorruptError, the machine's trouble StorageError, and both know the file."""

import errno
import json
import struct

import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, LakebedError, StorageError, UnsupportedError
from lakebed.kernel.decoding import Stated, decoding

DAMAGE = [
    KeyError("x"), ValueError("x"), IndexError(), struct.error("x"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"),
    json.JSONDecodeError("x", "", 0), pa.ArrowInvalid("x"), OverflowError(), RecursionError(), AttributeError("x"),
    TypeError("x"), EOFError(), OSError("Corrupt snappy compressed data"), Exception("DataFusion error: x"),
    OSError(errno.EINVAL, "Invalid argument"), ZeroDivisionError(), StopIteration(),
    pa.ArrowMemoryError("malloc of size 9223372036854775744 failed"),
]  # fmt: skip
MACHINE = [
    OSError(errno.EMFILE, "Too many open files"), OSError(errno.ENOSPC, "No space left on device"),
    PermissionError(errno.EACCES, "Permission denied"), OSError(errno.EROFS, "Read-only file system"), MemoryError(),
    pa.ArrowMemoryError("malloc of size 65536 failed"), OSError(errno.EDQUOT, "Disk quota exceeded"),
    Exception("IO error: Too many open files (os error 24)"), OSError(errno.EIO, "Input/output error"),
]  # fmt: skip


def met(error: BaseException) -> LakebedError:
    with pytest.raises(LakebedError) as caught, decoding("it cannot be read", file="f", table="t"):
        raise error
    assert (caught.value.file, caught.value.table) == ("f", "t")
    return caught.value


@pytest.mark.parametrize("error", DAMAGE, ids=repr)
def test_damage_of_bytes(error: Exception) -> None:
    found = met(error)
    assert type(found) is CorruptError
    assert found.__cause__ is error
    assert found.why


@pytest.mark.parametrize("error", MACHINE, ids=repr)
def test_trouble_of_the_machine(error: Exception) -> None:
    found = met(error)
    assert type(found) is StorageError
    assert found.todo
    assert "lost" not in str(found)


def test_what_passes() -> None:
    assert type(met(UnsupportedError("no"))) is UnsupportedError
    assert type(met(pa.ArrowNotImplementedError("no"))) is UnsupportedError
    with pytest.raises(FileNotFoundError), decoding("x"):
        raise FileNotFoundError("x")
    with pytest.raises(CorruptError), decoding("x", passing=False):
        raise FileNotFoundError("x")
    with pytest.raises(KeyboardInterrupt), decoding("x"):
        raise KeyboardInterrupt
    panic = type("PanicException", (BaseException,), {})
    assert type(met(panic("explicit panic"))) is CorruptError


def test_stated_sizes_and_rows() -> None:
    Stated().check_size(7)
    Stated(7, 3).check_size(7)
    with pytest.raises(CorruptError, match="7 bytes, the table's metadata say 8"):
        Stated(8, 3).check_size(7)
    with pytest.raises(CorruptError, match="2 rows, the table's metadata say 3"):
        Stated(8, 3).check_rows(2)
