"""Write ORC files to a disk that may be full.

ORC's own writer finishes the file in its destructor, where an error of the disk would end the whole process. So we give
it a sink that never fails. The sink remembers the first error, which is raised once the writer has returned.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.orc as orc


class OrcWriter:
    """Arrow's ORCWriter over a file. `options` are the keyword arguments of ORCWriter."""

    def __init__(self, sink: pa.NativeFile, **options: Any) -> None:
        self._sink = _NeverFailing(sink)
        self._writer = orc.ORCWriter(pa.PythonFile(self._sink, mode="w"), **options)

    def write(self, table: pa.Table) -> None:
        """Add rows. Raises whatever the file raised."""
        self._writer.write(table)
        self._sink.check()

    def close(self) -> None:
        """Finish the ORC file; `sink` stays open. Raises whatever the file raised."""
        self._writer.close()
        self._sink.check()


class _NeverFailing:
    """Accepts all bytes, and passes them on until the file fails."""

    closed = False

    def __init__(self, sink: pa.NativeFile) -> None:
        self._sink, self._written, self._error = sink, 0, None

    _error: Exception | None

    def write(self, data: Any) -> int:
        if self._error is None:
            try:
                self._sink.write(data)
            except Exception as error:  # noqa: BLE001  # raised by `check`, where it is safe
                self._error = error
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Do nothing: no bytes are buffered."""

    def close(self) -> None:
        self.closed = True

    def check(self) -> None:
        if self._error is not None:
            raise self._error
