"""Storage: list, read and write files, and put a file if its name is free (Created, Exists or Unknown).

`open_store` is the only way to get a store. Paths inside a store are relative to the table, use `/`, and never leave
the table.
"""

from lakebed.kernel.files.inner import InnerStore
from lakebed.kernel.files.location import Location, parse_location
from lakebed.kernel.files.opening import open_store
from lakebed.kernel.files.store import FileInfo, Listing, PutOutcome, Store, Version

__all__ = [
    "FileInfo", "InnerStore", "Listing", "Location", "PutOutcome", "Store", "Version", "open_store", "parse_location",
]  # fmt: skip
