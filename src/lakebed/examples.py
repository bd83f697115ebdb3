"""The example tables: in the installed package, or in the checkout that it is installed from."""

from __future__ import annotations

from pathlib import Path

from lakebed.errors import TableNotFoundError, UsageError

EXAMPLES = {"orders": "orders_hudi"}
"""The example tables by name, with their folders."""


def example(name: str) -> str:
    """The location of an example table that comes with the package: "orders", a Hudi merge-on-read table.

    Raises UsageError for an unknown name, TableNotFoundError when the example is not installed.
    """
    if name not in EXAMPLES:
        raise UsageError(f"there is no example {name!r}", todo=f"Examples: {', '.join(EXAMPLES)}")
    return str(example_path(EXAMPLES[name]))


def example_path(name: str) -> Path:
    """The path of a file or folder of the examples. TableNotFoundError when it is not installed."""
    package = Path(__file__).parent
    places = [package / "_examples" / name, package.parents[1] / "examples" / name]
    for place in places:
        if place.exists():
            return place
    raise TableNotFoundError(
        f"the example {name} is not installed",
        why=f"lakebed looked at {', '.join(map(str, places))}",
        todo="Install lakebed again",
    )
