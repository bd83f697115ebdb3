"""Run by the Python that has pypaimon: one process for many tables.

Each line of the standard input is one command, its words separated by tabs: `read WAREHOUSE DB.TABLE pure|native OUT`
or `write WAREHOUSE DB.TABLE pure|native IN`, Arrow IPC files. Each answer is one line: `ok`, or the error. A read
gives a column `_bucket` more: the bucket of the split that each row came from. `stream WAREHOUSE DB.TABLE CONSUMER OUT`
gives the rows of a stream's next plan with their kinds, and keeps the consumer's progress. `tracked WAREHOUSE DB.TABLE
COLUMNS OUT` reads columns, those of row tracking too. `update WAREHOUSE DB.TABLE COLUMNS IN` gives the rows that
`_ROW_ID` names new values in columns, and `remove WAREHOUSE DB.TABLE - IN` removes rows.
"""

import sys
import traceback

import pyarrow as pa
import pypaimon


def save(rows: pa.Table, file: str) -> None:
    with pa.OSFile(file, "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)


def run(verb: str, warehouse: str, name: str, path: str, file: str) -> None:
    table = pypaimon.CatalogFactory.create({"warehouse": warehouse}).get_table(name)
    if path == "native":
        table = table.copy({f"{verb}.native.enabled": "true" for verb in ("read", "write", "commit")})
    if verb == "read":
        builder = table.new_read_builder()
        found = [builder.new_read().to_arrow([]).append_column("_bucket", pa.array([], pa.int32()))]
        for split in builder.new_scan().plan().splits():
            rows = builder.new_read().to_arrow([split])
            found.append(rows.append_column("_bucket", pa.array([split.bucket] * len(rows), pa.int32())))
        save(pa.concat_tables(found), file)
        return
    if verb == "stream":
        builder = table.new_stream_read_builder().with_consumer_id(path).with_include_row_kind()
        scan = builder.new_streaming_scan()
        save(builder.new_read().to_arrow(next(scan.stream_sync()).splits()), file)
        scan._flush_pending_consumer()  # as it does before its next plan, for which it would wait
        return
    if verb == "tracked":
        builder = table.new_read_builder().with_projection(path.split(","))
        save(builder.new_read().to_arrow(builder.new_scan().plan().splits()), file)
        return
    with pa.memory_map(file) as source:
        rows = pa.ipc.open_file(source).read_all()
    builder = table.new_batch_write_builder()
    if verb in ("update", "remove"):
        update, commit = builder.new_update(), builder.new_commit()
        if verb == "update":
            made = update.with_update_type(path.split(",")).update_by_arrow_with_row_id(rows)
        else:
            made = update.delete_by_row_id(rows["_ROW_ID"].to_pylist())
        commit.commit(made)
        commit.close()
        return
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(rows)
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()


answers, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    try:
        run(*line.rstrip("\n").split("\t"))
        print("ok", file=answers, flush=True)
    except Exception as error:
        traceback.print_exc()
        print(f"{type(error).__name__}: {error}".replace("\n", " "), file=answers, flush=True)
