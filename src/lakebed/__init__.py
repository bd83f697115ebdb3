"""lakebed: Apache Hudi, Apache Paimon and Apache Iceberg tables for PySpark, with pip install alone."""

import importlib
from typing import Any

from lakebed import errors
from lakebed.examples import example
from lakebed.formats import create_table as create
from lakebed.formats import open_table as open
from lakebed.kernel.engine import LocalEngine
from lakebed.verbs.table import Table
from lakebed.version import VERSION

__all__ = ["LocalEngine", "Table", "create", "errors", "example", "open"]
__version__ = VERSION


_LAZY = ("callbacks", "hudi", "spark")


def __getattr__(name: str) -> Any:
    """`lakebed.callbacks`, `.hudi` and `.spark` are imported when first used: work without them starts at once."""
    if name in _LAZY:
        return importlib.import_module(f"lakebed.{name}")
    raise AttributeError(f"module 'lakebed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
