"""The command line: one thin module a command, over the same Python API that users call."""

from lakebed.cli.app import main

__all__ = ["main"]
