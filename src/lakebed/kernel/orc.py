"""ORC files written to disks that may be full.

ORC's own writer ends the file in its destructor, and there an error of the disk ends the whole process. So it writes to
a sink that never fails, which remembers the first error, and that is raised once the writer has returned.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.orc as orc


class OrcWriter:
    """Arrow's ORCWriter over a file; `options` are its own."""

    def __init__(self, sink: pa.NativeFile, **options: Any) -> None:
        self._sink = _Patient(sink)
        self._writer = orc.ORCWriter(pa.PythonFile(self._sink, mode="w"), **options)

    def write(self, table: pa.Table) -> None:
        """Add rows. Raises what the file raised."""
        self._writer.write(table)
        self._sink.check()

    def close(self) -> None:
        """End the file, which stays open. Raises what the file raised."""
        self._writer.close()
        self._sink.check()


class _Patient:
    """Takes all bytes, and hands them on until the file fails."""

    closed = False

    def __init__(self, sink: pa.NativeFile) -> None:
        self._sink, self._written, self._error = sink, 0, None

    _error: Exception | None

    def write(self, data: Any) -> int:
        if self._error is None:
            try:
                self._sink.write(data)
            except Exception as error:  # noqa: BLE001  # raised by `check`, where it harms nobody
                self._error = error
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        self.closed = True

    def check(self) -> None:
        if self._error is not None:
            raise self._error
