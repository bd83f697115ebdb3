"""The other libraries, each in a process of its own Python: one command a line, one answer a line.

    PYTHON -m bench.objectstore.peer pyiceberg|pypaimon|hudi-rs

A command is `{"verb": ..., "place": URL, "catalog": FILE, "metadata": URL, ...}`: the peer makes ready what is not
measured and answers. At the line `go` it does the work and answers with what that gave and the seconds it took.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

Work = Callable[[], Any]
COLUMN, VALUE = "c50", 250


def pyiceberg(asked: dict[str, Any]) -> Work:
    """Tables by path are opened by their newest metadata file, which is given: pyiceberg doesn't look for it."""
    import datetime

    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import StaticTable

    settings = {
        "s3.endpoint": asked["endpoint"], "s3.access-key-id": asked["key"], "s3.secret-access-key": asked["secret"],
        "s3.region": "us-east-1",
    }  # fmt: skip

    def static() -> Any:
        return StaticTable.from_metadata(asked["metadata"], settings)

    if asked["verb"] in ("append", "expire"):
        catalog = SqlCatalog("bench", uri=f"sqlite:///{asked['catalog']}", **settings)
        if asked["verb"] == "append":
            with pa.ipc.open_file(asked["rows"]) as source:
                rows = source.read_all()
            return lambda: catalog.load_table("ns.t").append(rows)

        def expire() -> int:
            table = catalog.load_table("ns.t")
            before = len(table.metadata.snapshots)
            now = datetime.datetime.now()  # its own comparison is of local times
            table.maintenance.expire_snapshots().older_than(now).commit()
            return before - len(catalog.load_table("ns.t").metadata.snapshots)

        return expire
    return {
        "open": static,
        "plan": lambda: len(list(static().scan().plan_files())),
        "read": lambda: static().scan().to_arrow().num_rows,
        "where": lambda: static().scan(row_filter=f"v = {VALUE}").to_arrow().num_rows,
        "column": lambda: static().scan(selected_fields=(COLUMN,)).to_arrow().num_rows,
        "history": lambda: len(static().snapshots()),
    }[asked["verb"]]


def pypaimon(asked: dict[str, Any]) -> Work:
    """Its own Python reader and writer, through a catalog of the folder."""
    import pyarrow as pa
    from pypaimon import CatalogFactory

    warehouse, database, name = asked["place"].rsplit("/", 2)
    settings = {
        "warehouse": warehouse, "fs.s3.endpoint": asked["endpoint"], "fs.s3.accessKeyId": asked["key"],
        "fs.s3.accessKeySecret": asked["secret"], "fs.s3.region": "us-east-1",
    }  # fmt: skip

    def table() -> Any:
        return CatalogFactory.create(settings).get_table(f"{database.removesuffix('.db')}.{name}")

    def read(where: bool = False, columns: list[str] | None = None) -> int:
        builder = table().new_read_builder()
        if where:
            builder = builder.with_filter(builder.new_predicate_builder().equal("v", VALUE))
        if columns:
            builder = builder.with_projection(columns)
        rows: int = builder.new_read().to_arrow(builder.new_scan().plan().splits()).num_rows
        return rows

    def write() -> None:
        builder = table().new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(rows)
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()

    if asked["verb"] in ("append", "upsert"):
        with pa.ipc.open_file(asked["rows"]) as source:
            rows = source.read_all()
        return write
    return {
        "open": table,
        "plan": lambda: len(table().new_read_builder().new_scan().plan().splits()),
        "read": read,
        "where": lambda: read(where=True),
        "column": lambda: read(columns=[COLUMN]),
        "history": lambda: len(table().snapshot_manager().list_snapshots()),
    }[asked["verb"]]


def hudi_rs(asked: dict[str, Any]) -> Work:
    from hudi import HudiReadOptions, HudiTableBuilder

    settings = {
        "aws_endpoint": asked["endpoint"], "aws_access_key_id": asked["key"], "aws_secret_access_key": asked["secret"],
        "aws_region": "us-east-1", "aws_allow_http": "true",
    }  # fmt: skip

    def table() -> Any:
        return HudiTableBuilder.from_base_uri(asked["place"]).with_storage_options(settings).build()

    def read(**how: Any) -> int:
        return sum(batch.num_rows for batch in table().read(HudiReadOptions(**how)))

    return {
        "open": table,
        "plan": lambda: len(table().get_file_slices(HudiReadOptions())),
        "read": read,
        "where": lambda: read(filters=[("v", "=", str(VALUE))]),
        "column": lambda: read(projection=[COLUMN]),
    }[asked["verb"]]


def main(peer: str) -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    begin = {"pyiceberg": pyiceberg, "pypaimon": pypaimon, "hudi-rs": hudi_rs}[peer]

    def answer(**said: Any) -> None:
        print(json.dumps(said), file=answers, flush=True)

    for line in sys.stdin:
        try:
            work = begin(json.loads(line))
            answer(ready=True)
        except Exception as error:
            traceback.print_exc()
            answer(error=f"{type(error).__name__}: {error}"[:300])
            continue
        sys.stdin.readline()
        clock = time.perf_counter()
        try:
            value = work()
            answer(value=value if isinstance(value, int) else None, seconds=time.perf_counter() - clock)
        except Exception as error:
            traceback.print_exc()
            answer(error=f"{type(error).__name__}: {error}"[:300], seconds=time.perf_counter() - clock)


if __name__ == "__main__":
    main(sys.argv[1])
