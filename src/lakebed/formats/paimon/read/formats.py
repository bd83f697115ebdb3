"""Batches of a data file in the file's own types: Parquet and ORC through Arrow, Avro through DataFusion.

Paimon's ORC and Avro files store some types differently from Parquet: ORC keeps TIME as an integer and every timestamp
in nanoseconds, and Avro swaps local and UTC timestamps, whose values are the same. The cast that follows the read
corrects both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.errors import DataCleanedError, UnsupportedError
from lakebed.kernel.avro.container import take_apart
from lakebed.kernel.avro.decode import read_batches
from lakebed.kernel.avro.schema import record_fields
from lakebed.kernel.decoding import UNSTATED, Stated, decoding
from lakebed.kernel.files import Store
from lakebed.kernel.orc import OrcReader
from lakebed.kernel.parquet.chunks import fetch_chunks
from lakebed.kernel.parquet.dictionaries import dictionary_texts, plain_texts
from lakebed.kernel.scratch import Scratch

_BATCH_ROWS = 64 << 10


def file_batches(
    store: Store, path: str, names: list[str], coarse: Collection[str] = (), stated: Stated = UNSTATED
) -> Iterator[pa.RecordBatch]:
    """Read the named columns of a file, rows in order. `coarse` names the timestamps of at most six digits.

    Raises UnsupportedError for a file format that lakebed does not read, DataCleanedError when the file is gone, and
    CorruptError when it cannot be read or does not have the size and row count that the manifest stated.
    """
    kind = path.rpartition(".")[2]
    if kind not in _READERS:
        raise UnsupportedError(f"lakebed does not read {kind} data files", table=store.location, file=path)
    try:
        with decoding("a data file cannot be read", table=store.location, file=path):
            source = store.open_input(path, stated.size)
            stated.check_size(source.size(), "a data file")
            yield from _READERS[kind](source, names, coarse, stated)
    except FileNotFoundError as error:
        raise DataCleanedError(
            "a data file is gone",
            table=store.location,
            file=path,
            why="the snapshot that holds it has expired",
            todo="Read a newer snapshot",
        ) from error


def _parquet(
    source: pa.NativeFile, names: list[str], coarse: Collection[str], stated: Stated
) -> Iterator[pa.RecordBatch]:
    """INT96 columns hold times of any year. They are read as nanoseconds, which only reach from 1678 to 2261, or as
    microseconds where they are `coarse`."""
    with pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True) as file:
        stated.check_rows(file.metadata.num_rows, "a data file")
        if not names:
            yield from _rowless(file.metadata.num_rows)
            return
        columns = [file.schema.column(place) for place in range(len(file.schema))]
        wanted = set(names)
        leaves = [place for place, column in enumerate(columns) if column.path.partition(".")[0] in wanted]
        fetch_chunks(source, file.metadata, None, leaves)
        wide = {column.path for column in columns if column.physical_type == "INT96"} & set(coarse)
        chosen = [name for name in names if name in wide]
        if not chosen:
            yield from _parquet_batches(source, file, names)
            return
        rest = [name for name in names if name not in wide]
        with pq.ParquetFile(
            source,
            metadata=file.metadata,
            coerce_int96_timestamp_unit="us",
            pre_buffer=False,
            page_checksum_verification=True,
        ) as second:
            times = second.iter_batches(_BATCH_ROWS, columns=chosen, use_threads=False)
            if not rest:
                yield from (batch.select(names) for batch in times)
                return
            others = file.iter_batches(_BATCH_ROWS, columns=rest, use_threads=False)
            for batch, coarse_times in zip(others, times, strict=True):
                arrays = [*batch.select(rest), *coarse_times.select(chosen)]
                columns_by_name = dict(zip([*rest, *chosen], arrays, strict=True))
                yield pa.RecordBatch.from_arrays([columns_by_name[name] for name in names], names=names)


def _parquet_batches(source: pa.NativeFile, file: pq.ParquetFile, names: list[str]) -> Iterator[pa.RecordBatch]:
    texts = dictionary_texts(file.metadata, file.schema_arrow, names)
    if not texts:
        yield from file.iter_batches(_BATCH_ROWS, columns=names, use_threads=False)
        return
    with pq.ParquetFile(
        source, metadata=file.metadata, read_dictionary=texts, pre_buffer=False, page_checksum_verification=True
    ) as second:
        yield from map(plain_texts, second.iter_batches(_BATCH_ROWS, columns=names, use_threads=False))


def _orc(source: pa.NativeFile, names: list[str], _: Collection[str], stated: Stated) -> Iterator[pa.RecordBatch]:
    file = OrcReader(source)
    stated.check_rows(file.rows, "a data file")
    yield from file.stripes(names) if names else _rowless(file.rows)


def _avro(source: pa.NativeFile, names: list[str], _: Collection[str], stated: Stated) -> Iterator[pa.RecordBatch]:
    container = take_apart(memoryview(source.read_buffer()))
    stated.check_rows(container.rows, "a data file")
    places = {field["name"]: place for place, field in enumerate(record_fields(container.schema))}
    yield from read_batches(container, [places[name] for name in names], _BATCH_ROWS, Scratch())


def _rowless(rows: int) -> Iterator[pa.RecordBatch]:
    """Batches without columns, which only count rows."""
    while rows > 0:
        size = min(rows, _BATCH_ROWS)
        yield pa.RecordBatch.from_struct_array(pa.array([{}] * size, pa.struct([])))
        rows -= size


_READERS = {"parquet": _parquet, "orc": _orc, "avro": _avro}
