"""Batches of a data file as the file has them: Parquet and ORC through Arrow, Avro through DataFusion.

What Paimon's ORC and Avro files spell otherwise than Parquet is put right by the cast that follows: ORC keeps TIME as
a number and every timestamp in nanoseconds; Avro exchanges local and UTC timestamps, whose values are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from lakebed.errors import CorruptError, DataCleanedError, UnsupportedError
from lakebed.kernel.datafusion import ordered_session
from lakebed.kernel.files import Store
from lakebed.kernel.scratch import Scratch

_BATCH_ROWS = 64 << 10


def file_batches(store: Store, path: str, names: list[str], coarse: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
    """The rows of a file in order, with the columns named; `coarse` are times of at most six digits. Raises
    DataCleanedError when the file is gone, CorruptError when it cannot be read."""
    kind = path.rpartition(".")[2]
    if kind not in _READERS:
        raise UnsupportedError(f"lakebed does not read {kind} data files", table=store.location, file=path)
    try:
        yield from _READERS[kind](store, path, names, coarse)
    except FileNotFoundError as error:
        raise DataCleanedError(
            "a data file is gone", table=store.location, file=path, why="the snapshot that names it has expired",
            todo="Read a newer snapshot",
        ) from error  # fmt: skip
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptError("a data file cannot be read", table=store.location, file=path, why=str(error)) from error


def _parquet(store: Store, path: str, names: list[str], coarse: Collection[str]) -> Iterator[pa.RecordBatch]:
    """INT96 columns, which hold times of any year, are read as nanoseconds, where only the years 1678 to 2261 have
    room, or as microseconds when they are `coarse`."""
    with pq.ParquetFile(store.open_input(path)) as file:
        if not names:
            yield from _rowless(file.metadata.num_rows)
            return
        columns = (file.schema.column(place) for place in range(len(file.schema)))
        wide = {column.path for column in columns if column.physical_type == "INT96"} & set(coarse)
        chosen = [name for name in names if name in wide]
        if not chosen:
            yield from file.iter_batches(_BATCH_ROWS, columns=names, use_threads=False)
            return
        rest = [name for name in names if name not in wide]
        with pq.ParquetFile(store.open_input(path), coerce_int96_timestamp_unit="us") as second:
            times = second.iter_batches(_BATCH_ROWS, columns=chosen, use_threads=False)
            if not rest:
                yield from (batch.select(names) for batch in times)
                return
            for one, two in zip(file.iter_batches(_BATCH_ROWS, columns=rest, use_threads=False), times, strict=True):
                found = dict(zip([*rest, *chosen], [*one.select(rest), *two.select(chosen)], strict=True))
                yield pa.RecordBatch.from_arrays([found[name] for name in names], names=names)


def _orc(store: Store, path: str, names: list[str], _: Collection[str]) -> Iterator[pa.RecordBatch]:
    file = orc.ORCFile(store.open_input(path))
    if not names:
        yield from _rowless(file.nrows)
        return
    for stripe in range(file.nstripes):
        yield file.read_stripe(stripe, columns=names).select(names)


def _avro(store: Store, path: str, names: list[str], _: Collection[str]) -> Iterator[pa.RecordBatch]:
    with _path_of(store, path) as local:
        try:
            frame = ordered_session(_BATCH_ROWS).read_avro(local)
            chosen = frame.select(*[f'"{name}"' for name in names]) if names else frame
            for batch in chosen.execute_stream():
                found = batch.to_pyarrow()
                if names:
                    yield found
                else:
                    yield from _rowless(found.num_rows)
        # DataFusion has no error type of its own: what Rust says arrives as a bare Exception.
        except Exception as error:
            raise CorruptError(
                "a data file cannot be read", table=store.location, file=path, why=str(error).splitlines()[0]
            ) from error


@contextmanager
def _path_of(store: Store, path: str) -> Iterator[str]:
    """A path of this machine for a file; a remote one is fetched."""
    local = store.local_path(path)
    if local is not None:
        with open(local, "rb"):
            pass  # a missing file is said so here
        yield local
        return
    with Scratch().holding([store.read(path)]) as url:
        yield url


def _rowless(rows: int) -> Iterator[pa.RecordBatch]:
    while rows > 0:
        some = min(rows, _BATCH_ROWS)
        yield pa.RecordBatch.from_struct_array(pa.array([{}] * some, pa.struct([])))
        rows -= some


_READERS = {"parquet": _parquet, "orc": _orc, "avro": _avro}
