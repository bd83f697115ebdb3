"""A disk that takes no more: StorageError from every writer, nothing on standard error, the table as it was."""

import subprocess
import sys
from pathlib import Path

import pytest

import lakebed

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


@pytest.mark.parametrize("kind", ["iceberg", "paimon"])
def test_a_full_disk_is_storage_error(kind: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), kind], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    for number in range(3):
        assert lakebed.open(tmp_path / "db.db" / f"t{number}").read().read_all().num_rows == 0
