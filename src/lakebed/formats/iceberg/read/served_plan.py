"""The plan of a read that a REST catalog makes: which data files, and which deletes apply to each.

Rule: the REST specification's planTableScan, fetchPlanningResult and fetchScanTasks, and the reference engine's
RESTTableScan and ContentFileParser. The catalog's filter may keep more rows than the predicate. The predicate itself
then keeps the right ones, so that what the catalog says is left of the filter (`residual-filter`) is not needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.iceberg.catalog.operations import Planner
from lakebed.formats.iceberg.codec.encryption import encrypted
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.partition_type import partition_type
from lakebed.formats.iceberg.codec.scan_filter import scan_filter
from lakebed.formats.iceberg.codec.schema import LAST_UPDATED, arrow_schema
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.data_files import Content, DataFile, DeleteFile, FileTask, Partition
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.read.context import ReadRequest
from lakebed.formats.iceberg.read.plan import TaskReader
from lakebed.formats.iceberg.read.split import ByteRange, IcebergSplit, split_name, starts_of_parts
from lakebed.kernel.decoding import decoding
from lakebed.kernel.predicates.where import unread_parts
from lakebed.verbs.read import ReadPlan

_CONTENTS = {
    "data": Content.DATA, "position-deletes": Content.POSITION_DELETES, "equality-deletes": Content.EQUALITY_DELETES,
}  # fmt: skip


def plan_served(
    planner: Planner, metadata: TableMetadata, snapshot: Snapshot | None, request: ReadRequest, table: str
) -> ReadPlan[IcebergSplit]:
    """Have a read of a snapshot planned. None is an empty table.

    UnsupportedError for a column that a plan does not tell, CorruptError for an answer that cannot be read.
    """
    context = request.context
    fields = context.columns(request.columns)
    if LAST_UPDATED in fields:
        raise UnsupportedError(
            f"the column {LAST_UPDATED.name} cannot be read", table=table,
            why="the catalog plans the scans of this table, and its plans have no sequence numbers",
            todo="Leave the column out",
        )  # fmt: skip
    splits: list[IcebergSplit] = []
    files: Files | None = None
    if snapshot is not None:
        answers, files = planner.plan(_request(metadata, snapshot, request))
        for answer in answers:
            with decoding("the catalog's plan cannot be read", table=table):
                tasks = [*_tasks(answer, metadata)]
            splits += _splits(tasks, request.split_size)
    if files is None:
        return ReadPlan(arrow_schema(fields), (), _no_rows)
    reader = TaskReader(files, context, tuple(field.name for field in fields), request.predicate)
    home, warnings = files.home, unread_parts(request.predicate)
    return ReadPlan(arrow_schema(fields), tuple(splits), reader, warnings, home.at_once, home.in_flight)


def _no_rows(_: IcebergSplit) -> Iterator[pa.RecordBatch]:
    return iter(())


def _request(metadata: TableMetadata, snapshot: Snapshot, request: ReadRequest) -> dict[str, Any]:
    """What is asked for, as the specification's PlanTableScanRequest, in the snapshot's own schema: the reference
    engine's handlers take it wherever a snapshot is named, whatever else is asked for."""
    context = request.context
    kept = metadata.schemas.get(snapshot.schema_id, metadata.schema) if snapshot.schema_id is not None else None
    fields = {field.field_id: field for field in (kept or metadata.schema).fields if "." not in field.name}
    columns = {field.name: fields[field.field_id] for field in context.schema.fields if field.field_id in fields}
    body: dict[str, Any] = {
        "snapshot-id": snapshot.snapshot_id, "case-sensitive": True, "use-snapshot-schema": True,
    }  # fmt: skip
    if request.columns is not None:
        wanted = [field.name for field in context.columns(request.columns)]
        wanted += request.predicate.columns() if request.predicate is not None else ()
        body["select"] = [columns[name].name for name in dict.fromkeys(wanted) if name in columns]
    row_filter = scan_filter(request.predicate, columns)
    return body if row_filter is None else {**body, "filter": row_filter}


def _tasks(answer: Mapping[str, Any], metadata: TableMetadata) -> Iterator[FileTask]:
    """The data files of one answer, each with the deletes that the catalog says apply to it."""
    types: dict[int, pa.StructType] = {}
    deletes = [_delete_file(file, metadata, types) for file in answer.get("delete-files") or ()]
    for task in answer.get("file-scan-tasks") or ():
        places = task.get("delete-file-references") or ()
        if any(not 0 <= place < len(deletes) for place in places):
            raise CorruptError("a task of the catalog's plan names a delete file that is not in the plan")
        data = _data_file(task["data-file"], metadata, types)
        yield FileTask(data, tuple(deletes[place] for place in sorted(set(places))))


def _data_file(file: Mapping[str, Any], metadata: TableMetadata, types: dict[int, pa.StructType]) -> DataFile:
    path, format, spec_id, partition, records, size = _common(file, metadata, types)
    if file.get("content", "data") != "data":
        raise CorruptError("the catalog's plan has a delete file in the place of a data file", file=path)
    return DataFile(
        path, format, spec_id, partition, records, size, first_row_id=_whole(file.get("first-row-id")),
        split_offsets=tuple(map(int, file.get("split-offsets") or ())),
    )  # fmt: skip


def _delete_file(file: Mapping[str, Any], metadata: TableMetadata, types: dict[int, pa.StructType]) -> DeleteFile:
    path, format, spec_id, partition, records, size = _common(file, metadata, types)
    content = _CONTENTS[file["content"].lower().replace("_", "-")]
    if content is Content.DATA:
        raise CorruptError("the catalog's plan has a data file in the place of a delete file", file=path)
    delete_file = DeleteFile(
        path, format, content, spec_id, partition, records, size,
        equality_ids=tuple(map(int, file.get("equality-ids") or ())),
        referenced_data_file=file.get("referenced-data-file"), content_offset=_whole(file.get("content-offset")),
        content_size=_whole(file.get("content-size-in-bytes")),
    )  # fmt: skip
    if delete_file.is_vector and None in (
        delete_file.referenced_data_file,
        delete_file.content_offset,
        delete_file.content_size,
    ):
        raise CorruptError("the catalog's plan does not say where a deletion vector is", file=path)
    if content is Content.EQUALITY_DELETES and not delete_file.equality_ids:
        raise CorruptError("the catalog's plan has an equality delete without columns", file=path)
    return delete_file


def _common(
    file: Mapping[str, Any], metadata: TableMetadata, types: dict[int, pa.StructType]
) -> tuple[str, str, int, Partition, int, int]:
    """The path, format, spec, partition, rows and bytes of a file."""
    path, spec_id = str(file["file-path"]), int(file["spec-id"])
    if file.get("key-metadata"):
        raise encrypted("the catalog's plan has a key for this file", file=path)
    if spec_id not in metadata.specs:
        raise CorruptError(f"the catalog's plan names a partition spec {spec_id} that the table has not", file=path)
    if spec_id not in types:
        types[spec_id] = partition_type(metadata, metadata.specs[spec_id])
    given, kind = file.get("partition") or (), types[spec_id]
    if isinstance(given, Mapping):  # as the reference engine wrote it before release 1.11
        given = [given.get(str(field.field_id)) for field in metadata.specs[spec_id].fields]
    partition = tuple(_value(value, kind.field(n).type) for n, value in enumerate(given))
    if len(partition) != kind.num_fields:
        raise CorruptError(f"the catalog's plan gives {len(partition)} values of {kind.num_fields} fields", file=path)
    format = str(file["file-format"]).upper()
    return path, format, spec_id, partition, int(file["record-count"]), int(file["file-size-in-bytes"])


def _value(given: Any, kind: pa.DataType) -> Any:
    """A partition value, from the JSON that the specification has for single values, as Arrow gives it to Python."""
    if given is None or pa.types.is_null(kind):
        return None
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return bytes.fromhex(given.replace("-", ""))
    if isinstance(given, str) and not pa.types.is_string(kind):
        return pa.scalar(given).cast(kind).as_py()
    return pa.scalar(given, kind).as_py()


def _whole(given: Any) -> int | None:
    return None if given is None else int(given)


def _splits(tasks: Iterable[FileTask], split_size: int) -> Iterator[IcebergSplit]:
    """The splits of data files; a large file becomes several."""
    for task in tasks:
        data = task.data
        starts = starts_of_parts(data.split_offsets, data.format, data.size, split_size)
        if len(starts) == 1:
            yield IcebergSplit(data.path, data.size, task)
            continue
        for start, end in zip(starts, (*starts[1:], data.size), strict=True):
            part = ByteRange(start, end)
            yield IcebergSplit(split_name(data.path, part), end - start, task, part)
