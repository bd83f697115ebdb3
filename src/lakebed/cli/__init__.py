"""The command line: one thin module per command, over the Python API that users call."""

from lakebed.cli.app import main

__all__ = ["main"]
