"""The HTTP side of a REST catalog: paths, headers, answers, and what a refusal means.

Rules: Paimon's RESTApi, ResourcePaths and ErrorResponse. The server's configuration comes first: its defaults lie under
the settings that are given, its overrides over them, and its prefix stands before every path. Redirects are not
followed, since they would take the token elsewhere.
"""

from __future__ import annotations

import functools
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

from lakebed.errors import LakebedError, RetryableError, StorageError, UsageError, first_line
from lakebed.formats.paimon.catalog.settings import PREFIX, TOKEN, URI, WAREHOUSE, Settings, with_server
from lakebed.kernel import clock

_SECONDS = 60
_MOST_BYTES = 64 << 20
_WAITS = (0.2, 1.0)
"""How long a question waits before it is asked again, when the server is busy."""
_BUSY = (429, 502, 503, 504)


class Refusal(Exception):
    """The server answered that it does not do what it was asked. `status` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Server:
    """A REST catalog. Picklable without its token, which another process takes from its environment."""

    def __init__(self, settings: Settings) -> None:
        self.given = settings
        self.uri = settings.needs(URI).rstrip("/")
        if urllib.parse.urlsplit(self.uri).scheme not in ("http", "https"):
            raise UsageError(f"the catalog {settings.name!r} has the uri {self.uri!r}", todo="Give an http(s) address")

    def __reduce__(self) -> tuple[Any, ...]:
        return Server, (self.given,)

    @functools.cached_property
    def settings(self) -> Settings:
        """The settings with those of the server."""
        query = {"warehouse": self.given[WAREHOUSE]} if self.given[WAREHOUSE] else {}
        return with_server(self.given, self.answered(lambda: self._asked("GET", "/v1/config", self.given, query=query)))

    def ask(self, method: str, *parts: str, body: Any = None, query: Mapping[str, str] = {}) -> Mapping[str, Any]:
        """Send a request to a path of the catalog. Only a GET is repeated.

        Refusal when the server refuses, RetryableError when there is no answer that can be read.
        """
        prefix = self.settings.texts.get("prefix", "")
        path = "/".join(urllib.parse.quote(part, safe="") for part in (*([prefix] if prefix else []), *parts))
        return self._asked(method, f"/v1/{path}", self.settings, body, query)

    def pages(self, key: str, *parts: str) -> Iterator[Any]:
        """The items of a list that comes in pages."""
        token: str | None = None
        while True:
            page = self.ask("GET", *parts, query={"pageToken": token} if token else {})
            yield from page.get(key) or ()
            following = page.get("nextPageToken")
            if not following or following == token:
                return
            token = str(following)

    def answered(self, act: Any, missing: LakebedError | None = None, taken: LakebedError | None = None) -> Any:
        """What `act` returns. A refusal becomes an error: `missing` for 404, `taken` for 409, else StorageError."""
        try:
            return act()
        except Refusal as refusal:
            wanted = {404: missing, 409: taken}.get(refusal.status)
            if wanted is not None:
                raise wanted from refusal
            raise self.refused(refusal) from refusal

    def refused(self, refusal: Refusal) -> StorageError:
        """The error for a refusal."""
        access = refusal.status in (401, 403)
        return StorageError(
            f"the catalog {self.given.name!r} refused",
            why=f"{refusal.message} (HTTP {refusal.status})",
            todo=f"Check {PREFIX}{TOKEN.key}, and what it may do" if access else "Look in the server's log",
        )

    def _asked(
        self, method: str, path: str, settings: Settings, body: Any = None, query: Mapping[str, str] = {}
    ) -> Mapping[str, Any]:
        address = f"{self.uri}{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        headers = {"Accept": "application/json", "Content-Type": "application/json", **settings.headers()}
        if settings[TOKEN]:
            headers["Authorization"] = f"Bearer {settings[TOKEN]}"
        request = urllib.request.Request(address, data, headers, method=method)
        for wait in (*_WAITS, None):
            try:
                return self._answer(request)
            except (Refusal, RetryableError) as error:
                again = isinstance(error, RetryableError) or error.status in _BUSY
                if method != "GET" or wait is None or not again:
                    raise
            clock.pause(wait)
        raise AssertionError("unreachable")

    def _answer(self, request: urllib.request.Request) -> Mapping[str, Any]:
        try:
            with _OPENER.open(request, timeout=_SECONDS) as response:
                data = response.read(_MOST_BYTES + 1)
            value = json.loads(data) if data else {}
            if not isinstance(value, Mapping) or len(data) > _MOST_BYTES:
                raise ValueError("the answer is not a document of the catalog's protocol")
            return value
        except urllib.error.HTTPError as error:
            with error:
                raise Refusal(error.code, _message(error.read(1 << 16), error.reason)) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise RetryableError(
                f"the catalog {self.given.name!r} did not answer as it should",
                why=first_line(error),
                todo=f"Check that it is running, and {PREFIX}{URI.key}",
            ) from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        """Return None, so that urllib raises the redirect as an HTTPError."""


_OPENER = urllib.request.build_opener(_NoRedirects)


def _message(data: bytes, reason: object) -> str:
    """The message in the server's answer to a failed request."""
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return str(reason)
