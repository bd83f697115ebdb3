"""Progress of long work: a bar on a terminal, log lines elsewhere. Always on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from lakebed.cli import output


class Step(Protocol):
    """Told of each piece of work that is done."""

    def __call__(self, text: str) -> None:
        """`text` says what was done."""
        ...


@contextmanager
def steps(title: str, total: int | None = None) -> Iterator[Step]:
    """A bar of `total` steps (None: unknown) on a terminal; else one line a step."""
    if not sys.stderr.isatty():
        output.log(title)
        yield output.log
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)

        def step(text: str) -> None:
            bar.update(task, advance=1, description=text)

        yield step
