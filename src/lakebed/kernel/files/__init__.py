"""Storage: list, read, write, and put-if-absent whose outcome is Created, Exists or Unknown.

`open_store` is the only way to a store. Paths inside a store are relative to the table, with `/`, and never leave it.
"""

from lakebed.kernel.files.location import Location, parse_location
from lakebed.kernel.files.opening import open_store
from lakebed.kernel.files.store import FileInfo, Listing, PutOutcome, Store

__all__ = ["FileInfo", "Listing", "Location", "PutOutcome", "Store", "open_store", "parse_location"]
