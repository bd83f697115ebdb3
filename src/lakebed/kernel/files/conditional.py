"""Conditional puts: a name is put if it is free, and a file is replaced if it is still the one that was read.

The answer to such a put can be lost, and a client that asks again then meets its own bytes. So after each refusal the
file is read back: the bytes, which must be unique to the attempt, show whose it is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore as Client

from lakebed.kernel.files.answers import answer_of, is_missing, is_refusal, was_tried_again
from lakebed.kernel.files.store import PutOutcome, Version

_RACES = (409, 412)
"""Answers to a conditional put that another put may have caused, or an earlier try of our own."""


def put(
    writer: Client,
    reader: Client,
    path: str,
    data: bytes,
    request: Callable[[], AbstractContextManager[None]],
    replaces: Version | None = None,
) -> tuple[PutOutcome, Exception | None]:
    """Put a file if its name is free, or in place of the version that it `replaces`. Each request is made inside a
    block of `request`.

    UNKNOWN comes with the store's refusal where it is certain that the name does not have our bytes.
    """
    try:
        with request():
            mode = "create" if replaces is None else replaces.condition
            obstore.put(writer, path, data, mode=mode, use_multipart=False)  # type: ignore[arg-type]
        return PutOutcome.CREATED, None
    except (BaseError, FileNotFoundError) as error:
        refusal = error
    refused = is_refusal(refusal) and answer_of(refusal)[0] not in _RACES
    try:
        stored, version = read(reader, path, request)
    except FileNotFoundError as error:
        if replaces is not None and is_missing(error):
            return PutOutcome.EXISTS, None  # somebody removed the file that was to be replaced
        return PutOutcome.UNKNOWN, refusal if refused else None
    except BaseError:
        return PutOutcome.UNKNOWN, refusal if refused and not was_tried_again(refusal) else None
    if stored == data:
        return PutOutcome.CREATED, None
    if version == replaces:  # nobody replaced it, and neither did we
        return PutOutcome.UNKNOWN, refusal if refused else None
    return PutOutcome.EXISTS, None


def read(client: Client, path: str, request: Callable[[], AbstractContextManager[None]]) -> tuple[bytes, Version]:
    """The bytes of a file and their version, from one request."""
    with request():
        result = obstore.get(client, path)
        return bytes(result.bytes()), Version(result.meta["e_tag"], result.meta["version"])
