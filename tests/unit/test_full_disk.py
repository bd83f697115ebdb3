"""A disk that takes no more: StorageError from every writer, nothing on standard error, the table as it was."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import NotWrittenError

SCRIPT = """
import os, resource, signal, sys
import pyarrow as pa, lakebed
from lakebed.errors import StorageError
folder, kind = sys.argv[1:]
schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
form = {"iceberg": "write.format.default", "paimon": "file.format"}
for number, file in enumerate(("parquet", "orc", "avro")):
    lakebed.create(f"{folder}/db.db/t{number}", kind, schema, options={form[kind]: file})
rows = pa.table({"id": range(5000), "v": [os.urandom(24).hex() for _ in range(5000)]}, schema=schema)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))
for number in range(3):
    try:
        lakebed.open(f"{folder}/db.db/t{number}").write(rows)
    except StorageError as error:
        assert "large" in str(error).lower() or error.todo, error
    else:
        raise AssertionError("the write went through")
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["iceberg", "paimon"])
def test_a_full_disk_is_storage_error(kind: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), kind], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    for number in range(3):
        assert lakebed.open(tmp_path / "db.db" / f"t{number}").read().read_all().num_rows == 0


@pytest.mark.parametrize("kind", ["iceberg", "paimon"])
def test_a_commit_that_the_disk_refuses_is_known_not_to_stand(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lakebed.create(tmp_path / "db.db" / "t", kind, pa.schema([("id", pa.int64())]))
    rows = pa.table({"id": [1]})

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", full)
        with pytest.raises(NotWrittenError, match="No space left"):
            table.write(rows)
    assert table.read().read_all().num_rows == 0
    assert not [*(tmp_path / "db.db" / "t").rglob("*.parquet")]
    table.write(rows)
    assert table.read().read_all().num_rows == 1
