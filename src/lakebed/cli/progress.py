"""Progress of long work on standard error: a bar on a terminal, log lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from lakebed.cli import output


class Step(Protocol):
    """Called after each finished step."""

    def __call__(self, text: str) -> None:
        """Report a step. `text` says what was done."""
        ...


@contextmanager
def steps(title: str, total: int | None = None) -> Iterator[Step]:
    """Show a bar of `total` steps (None: unknown) on a terminal, else log one line per step."""
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
