"""Where the examples lie: inside the installed package, or in the checkout."""

from __future__ import annotations

from pathlib import Path

import lakebed
from lakebed.errors import TableNotFoundError


def example(name: str) -> Path:
    """The path of one example; TableNotFoundError when the installation lacks it."""
    package = Path(lakebed.__file__).parent
    places = [package / "_examples" / name, package.parents[1] / "examples" / name]
    for place in places:
        if place.exists():
            return place
    raise TableNotFoundError(
        f"the example {name} is not installed",
        why=f"looked at {', '.join(map(str, places))}",
        todo="Install lakebed again",
    )
