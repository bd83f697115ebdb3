"""`python -m lakebed.cli`, the same as the program `lakebed`."""

from lakebed.cli.app import main

main()
