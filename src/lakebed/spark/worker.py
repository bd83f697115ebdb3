"""The functions that run on a worker before anybody knows whether it has lakebed.

They travel by value and use only the standard library and pyspark. What they carry is a *payload*: bytes that are
unpickled on the worker. A worker without lakebed then says so in one line.
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from pyspark import SparkFiles, cloudpickle

SHIPPED_FOLDER = "lakebed_shipped"
"""The folder that `lakebed.spark.ship` unpacks beside a worker."""
MISSING = "lakebed cannot run on this worker"
"""How the error of a worker begins that lacks lakebed, or a wheel that lakebed needs."""


def pack(value: object) -> bytes:
    """Make a payload. Closures and what is defined in `__main__` travel by value, importable things by name."""
    return zlib.compress(dumps(value), 1)


def dumps(value: object) -> bytes:
    """Pickle a value, also one whose class or function is defined in `__main__`."""
    return bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]  # pyspark's copy is untyped


class Deferred:
    """Stands for the result of a function that needs lakebed. Unpickling it calls the function, by its name."""

    def __init__(self, module: str, function: str, *arguments: Any) -> None:
        self._call = (module, function, arguments)

    def __reduce__(self) -> Any:
        return _by_name, self._call


def _by_name(module: str, function: str, arguments: tuple[Any, ...]) -> Any:
    return getattr(importlib.import_module(module), function)(*arguments)


def unpack(payload: bytes, shipped: str = "") -> Any:
    """The value of a payload. RuntimeError in one line when a module that it needs is missing here.

    `shipped` is the shipped folder as another process of this machine found it, for a process that cannot find it.
    """
    folder = shipped_folder() or (shipped if os.path.isdir(shipped) else "")
    if folder and folder not in sys.path:
        sys.path.append(folder)
    try:
        return pickle.loads(zlib.decompress(payload))
    except ModuleNotFoundError as error:
        missing = error.name or str(error)
    ship = "or ship it from the driver before the first job: lakebed.spark.ship(spark)"
    if not _files_folder():
        ship = "for what is shipped over Connect does not reach the batches of a stream's sink"
    raise RuntimeError(f"{MISSING}: {sys.executable} has no module {missing!r}. Install lakebed there, {ship}")


def unpack_in_task(payload: bytes) -> Any:
    """The value of a payload, in a worker's task: what the worker has loaded is kept out of its garbage collections.

    PySpark's daemon runs a full collection after each task: 70 ms with lakebed loaded, to find next to nothing.
    """
    value = unpack(payload)
    _by_name("lakebed.kernel.garbage", "freeze_what_is_loaded", ())
    return value


def shipped_folder() -> str:
    """The folder into which Spark unpacked what `ship` sent, "" when there is none here.

    On the executors of a cluster, Spark names the folder of a session's files by a path relative to a working folder,
    which over Connect is that folder itself. Where Spark plans a stream, it names a folder below it (`streaming_job`),
    which is empty.
    """
    root = _files_folder()
    places = [os.path.abspath(root)] if root else []
    if root and not os.path.isabs(root):
        places.append(os.getcwd())
    if os.path.basename(root) == "streaming_job":
        places.append(os.path.dirname(os.path.abspath(root)))
    folders = (os.path.join(place, SHIPPED_FOLDER) for place in places)
    return next((folder for folder in folders if os.path.isdir(folder)), "")


def _files_folder() -> str:
    """Where Spark unpacks a session's files here; "" in a process that gets none, such as foreachBatch over Connect."""
    try:
        return str(SparkFiles.getRootDirectory())
    except Exception:  # noqa: BLE001  # an AssertionError without a context, another one after it was stopped
        return ""


def over_batches(payload: bytes) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For mapInArrow: apply the payload, a function, to the batches of one partition."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        yield from unpack_in_task(payload)(batches)

    return run


def over_columns(payload: bytes) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For an Arrow function of several columns: apply the payload, a function, to the arrays of each batch."""

    def run(columns: Iterator[Any]) -> Iterator[Any]:
        call = unpack_in_task(payload)
        for arrays in columns:
            yield call(arrays if isinstance(arrays, tuple) else (arrays,))

    return run


def over_tasks(function: bytes, tasks: list[bytes]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For mapInArrow over the numbers of tasks: yield the batches of `function(number, task)` for each task."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        call = None
        for batch in batches:
            for number in batch.column(0).to_pylist():
                call = call or unpack_in_task(function)
                yield from call(number, unpack(tasks[number]))

    return run


def over_frame(payload: bytes) -> Callable[[Any, int], None]:
    """For foreachBatch: apply the payload, a function, to a DataFrame and a batch id.

    Every batch of a query is given to the same object, which may keep what it has opened.
    """
    call = None

    def run(frame: Any, batch_id: int) -> None:
        nonlocal call
        call = call or unpack(payload)
        call(frame, batch_id)

    return run


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # pyspark's copy is untyped
