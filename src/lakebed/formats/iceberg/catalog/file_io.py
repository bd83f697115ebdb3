"""pyiceberg's FileIO over lakebed's store, so that catalogs and tables share one set of credentials."""

from __future__ import annotations

import io
import uuid
import weakref
from collections.abc import Mapping
from typing import Any

from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.table import Table as CatalogEntry

from lakebed.formats.iceberg.codec.metadata import GZIP, brief, metadata_from_json
from lakebed.formats.iceberg.files import Files, spelled
from lakebed.formats.iceberg.layout import catalog_version
from lakebed.kernel.files import PutOutcome, open_store
from lakebed.kernel.files.credentials import KEYS_END, PREFIX, credentials_from, is_secret

IMPLEMENTATION = f"{__name__}.StoreFileIO"
"""The value of pyiceberg's property `py-io-impl`."""
_SETTINGS = {
    "s3.endpoint": "aws_endpoint", "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key", "s3.session-token": "aws_session_token",
    "s3.session-token-expires-at-ms": KEYS_END,
    "s3.region": "aws_region", "client.region": "aws_region",
    "s3.force-virtual-addressing": "aws_virtual_hosted_style_request",
    "client.access-key-id": "aws_access_key_id", "client.secret-access-key": "aws_secret_access_key",
    "client.session-token": "aws_session_token",
    "adls.account-name": "azure_storage_account_name", "adls.account-key": "azure_storage_account_key",
    "adls.sas-token": "azure_storage_sas_key", "adls.tenant-id": "azure_storage_tenant_id",
    "adls.client-id": "azure_storage_client_id", "adls.client-secret": "azure_storage_client_secret",
}  # fmt: skip
"""pyiceberg's names of storage settings -> the names that lakebed's storage client has."""
_FAMILIES = ("s3.", "adls.", "gcs.", "client.")
OPENED = "lakebed.opened"
"""The property with the name of what the FileIOs of a catalog share: pyiceberg makes them from properties alone."""
_OPENED: weakref.WeakValueDictionary[str, Opened] = weakref.WeakValueDictionary()
KEPT = 16 << 20
"""A metadata file of more bytes is not kept."""


def storage_options(properties: Mapping[str, Any]) -> dict[str, str]:
    """The `lakebed.storage.*` options for a catalog's properties. Those that are among the properties win."""
    options = {f"{PREFIX}setting.{_SETTINGS[key]}": str(value) for key, value in properties.items() if key in _SETTINGS}
    return options | {key: str(value) for key, value in properties.items() if key.lower().startswith(PREFIX)}


def table_options(catalog: Mapping[str, Any], entry: CatalogEntry, own: Mapping[str, str]) -> dict[str, str]:
    """The options for the files of a table: those of its catalog, and the caller's `own`, which win.

    Storage settings come from the catalog and from what it answers about the table, never from the table's own
    properties: these must not choose who receives the caller's credentials.
    """
    properties, config = entry.metadata.properties, {**catalog, **entry.config}
    of_io = {k: v for k, v in entry.io.properties.items() if properties.get(k) != v or config.get(k) == v}
    handed_out = storage_options({**config, **of_io})
    if any(key.lower().startswith(f"{PREFIX}setting.") and is_secret(key.lower()) for key in own):
        handed_out.pop(f"{PREFIX}setting.{KEYS_END}", None)  # the caller's own keys do not end then
    return handed_out | dict(own)


def of_storage(key: str) -> bool:
    """Whether an option configures storage: one of lakebed's own, or one of pyiceberg's."""
    return key.lower().startswith((PREFIX, *_FAMILIES))


class Opened:
    """What the FileIOs of one open catalog share: a client for each place, and the metadata file that was read last.

    A metadata file whose name has a UUID never changes, so it is read once. pyiceberg makes objects of all that it is
    given, at every load of a table. It needs neither old snapshots nor their log, so it gets the file without them.
    """

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self._files: dict[tuple[str, str], Files] = {}
        self._last: tuple[str, bytes] | None = None
        self._shortened: tuple[str, bytes] | None = None
        _OPENED[self.name] = self

    def files(self, folder: str, options: Mapping[str, str]) -> Files:
        """The files of a folder, always with the same client."""
        key = folder, repr(sorted(options.items()))
        if key not in self._files:
            self._files[key] = Files(open_store(folder, options), credentials_from(options))
        return self._files[key]

    def keep(self, location: str, data: bytes) -> None:
        """Keep the bytes of a metadata file that was read or written."""
        if is_unique(location) and len(data) <= KEPT:
            self._last = location, data
            self._shortened = None

    def kept(self, location: str) -> bytes | None:
        """The bytes of a metadata file, None when they are not kept."""
        last = self._last
        return last[1] if last is not None and last[0] == location else None

    def shortened(self, location: str, files: Files) -> bytes:
        """A file as pyiceberg needs it."""
        data = self.kept(location)
        if data is None:
            data = files.read(location)
            self.keep(location, data)
        short = self._shortened
        if short is None or short[0] != location:
            short = location, shortened(data)
            self._shortened = short if self.kept(location) is data else None
        return short[1]


def is_unique(location: str) -> bool:
    """Whether a location has the name of a metadata file of a catalog's table, which has a UUID in it."""
    return catalog_version(location.rpartition("/")[2]) is not None


def shortened(data: bytes) -> bytes:
    """A metadata file with no other snapshots than those of branches and tags. As it is where it cannot be decoded."""
    try:
        return brief(metadata_from_json(data), data[:2] == GZIP)
    except Exception:  # noqa: BLE001  # pyiceberg says what is wrong with it
        return data


class StoreFileIO(FileIO):
    """Reads and writes small files as a whole."""

    def __init__(self, properties: Mapping[str, Any] = {}, opened: Opened | None = None) -> None:
        super().__init__(dict(properties))
        self._opened = opened or _OPENED.get(str(self.properties.get(OPENED)))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def new_input(self, location: str) -> InputFile:
        """The file at a location, to read."""
        return _Input(location, self._files(location), self._opened)

    def new_output(self, location: str) -> OutputFile:
        """The file at a location, to write."""
        return _Output(location, self._files(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove a file. A missing one is no error."""
        url = location if isinstance(location, str) else location.location
        self._files(url).delete_many([url])

    def _files(self, location: str) -> Files:
        options = storage_options(self.properties)
        return (self._opened or Opened()).files(spelled(location).rpartition("/")[0], options)


class _Input(InputFile):
    def __init__(self, location: str, files: Files, opened: Opened | None = None) -> None:
        super().__init__(location)
        self._files, self._opened = files, opened

    def __len__(self) -> int:
        return self._files.size(self.location)

    def exists(self) -> bool:
        return self._files.exists(self.location)

    def open(self, seekable: bool = True) -> Any:
        if self._opened is not None:
            return io.BytesIO(self._opened.shortened(self.location, self._files))
        return io.BytesIO(self._files.read(self.location))


class _Output(OutputFile):
    def __init__(self, location: str, files: Files) -> None:
        super().__init__(location)
        self._files = files

    def __len__(self) -> int:
        return self._files.size(self.location)

    def exists(self) -> bool:
        return self._files.exists(self.location)

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self._files)

    def create(self, overwrite: bool = False) -> Any:
        return _Sink(self._files, self.location, overwrite)


class _Sink(io.BytesIO):
    """Collects the bytes and writes the file when it is closed."""

    def __init__(self, files: Files, location: str, overwrite: bool) -> None:
        super().__init__()
        self._files, self._location, self._overwrite = files, location, overwrite

    def close(self) -> None:
        if self.closed:
            return
        data = self.getvalue()
        super().close()
        if self._overwrite:
            self._files.write(self._location, data)
        elif self._files.put_if_absent(self._location, data) is not PutOutcome.CREATED:
            raise FileExistsError(f"cannot create {self._location}: it already exists")

    def __exit__(self, *failure: Any) -> None:
        if failure and failure[0] is not None:
            super().close()
        else:
            self.close()
