"""`python -m lakebed` is the program `lakebed`."""

from lakebed.cli import main

if __name__ == "__main__":
    main()
