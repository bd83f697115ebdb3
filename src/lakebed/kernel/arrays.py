"""Numpy arrays by element type: one name for each, for annotations."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Int64s: TypeAlias = npt.NDArray[np.int64]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int8s: TypeAlias = npt.NDArray[np.int8]
UInt64s: TypeAlias = npt.NDArray[np.uint64]
UInt32s: TypeAlias = npt.NDArray[np.uint32]
UInt8s: TypeAlias = npt.NDArray[np.uint8]
Bools: TypeAlias = npt.NDArray[np.bool_]
Float64s: TypeAlias = npt.NDArray[np.float64]
Objects: TypeAlias = npt.NDArray[np.object_]
AnyArray: TypeAlias = npt.NDArray[Any]
