"""pyiceberg's FileIO over lakebed's store, so that catalogs and tables share one set of credentials."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from pyiceberg.io import FileIO, InputFile, OutputFile

from lakebed.formats.iceberg.files import Files, spelled
from lakebed.kernel.files import PutOutcome, open_store
from lakebed.kernel.files.credentials import PREFIX, credentials_from

IMPLEMENTATION = f"{__name__}.StoreFileIO"
"""The value of pyiceberg's property `py-io-impl`."""
_SETTINGS = {
    "s3.endpoint": "aws_endpoint", "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key", "s3.session-token": "aws_session_token",
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


def storage_options(properties: Mapping[str, Any]) -> dict[str, str]:
    """The `lakebed.storage.*` options for a catalog's properties. Those that are among the properties win."""
    options = {f"{PREFIX}setting.{_SETTINGS[key]}": str(value) for key, value in properties.items() if key in _SETTINGS}
    return options | {key: str(value) for key, value in properties.items() if key.lower().startswith(PREFIX)}


def of_storage(key: str) -> bool:
    """Whether an option configures storage: one of lakebed's own, or one of pyiceberg's."""
    return key.lower().startswith((PREFIX, *_FAMILIES))


class StoreFileIO(FileIO):
    """Reads and writes small files as a whole."""

    def __init__(self, properties: Mapping[str, Any] = {}) -> None:
        super().__init__(dict(properties))

    def new_input(self, location: str) -> InputFile:
        """The file at a location, to read."""
        return _Input(location, self._files(location))

    def new_output(self, location: str) -> OutputFile:
        """The file at a location, to write."""
        return _Output(location, self._files(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove a file. A missing one is no error."""
        url = location if isinstance(location, str) else location.location
        self._files(url).delete_many([url])

    def _files(self, location: str) -> Files:
        options = storage_options(self.properties)
        return Files(open_store(spelled(location).rpartition("/")[0], options), credentials_from(options))


class _Input(InputFile):
    def __init__(self, location: str, files: Files) -> None:
        super().__init__(location)
        self._files = files

    def __len__(self) -> int:
        return self._files.size(self.location)

    def exists(self) -> bool:
        return self._files.exists(self.location)

    def open(self, seekable: bool = True) -> Any:
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
