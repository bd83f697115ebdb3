"""Scans that a REST catalog plans: a plan is asked for, waited for, and its tasks are fetched.

Rule: the REST specification's planTableScan, fetchPlanningResult, cancelPlanning and fetchScanTasks, and the reference
engine's RESTTableScan (how long it waits, and for what).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from pyiceberg.catalog.rest import Capability, RestCatalog
from pyiceberg.catalog.rest.response import _handle_non_200_response
from pyiceberg.exceptions import NoSuchTableError
from requests import HTTPError, Response

from lakebed.errors import CorruptError, RetryableError, StorageError
from lakebed.formats.iceberg.catalog.client import asking
from lakebed.formats.iceberg.catalog.demands import planned_elsewhere
from lakebed.formats.iceberg.files import Files
from lakebed.kernel import clock

_TIMEOUT = "rest-scan-planning.poll-timeout-ms"
_DEFAULT_MS = 300_000
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 10.0
"""Seconds between two questions for a plan."""
_TABLE = "namespaces/{namespace}/tables/{table}"
_PLAN = f"{_TABLE}/plan"


class ServedScans:
    """Plans of the scans of one table. `files_for` gives the files to read with the keys of a plan, if it has some."""

    def __init__(
        self, catalog: RestCatalog, identifier: tuple[str, ...],
        files_for: Callable[[Sequence[Mapping[str, Any]]], Files],
    ) -> None:  # fmt: skip
        self.catalog: Any = catalog
        self.identifier, self._files_for = identifier, files_for

    def plan(self, request: Mapping[str, Any]) -> tuple[Sequence[Mapping[str, Any]], Files]:
        """The answers that the tasks of a scan are in, and the files to read them with.

        StorageError when planning failed or was cancelled, RetryableError when it takes longer than
        `rest-scan-planning.poll-timeout-ms`, CorruptError for an answer that makes no sense,
        UnsupportedError for a catalog without the endpoints.
        """
        if Capability.V1_SUBMIT_TABLE_SCAN_PLAN not in self.catalog._supported_endpoints:
            raise planned_elsewhere(self._name, "it does not name the endpoint that plans them")
        with asking(self.catalog.name, self.identifier):
            first = self._completed(self._ask("post", _PLAN, request))
            answers, seen = [first], set[str]()
            waiting = deque(first.get("plan-tasks") or ())
            while waiting:
                task = waiting.popleft()
                if task in seen:
                    raise CorruptError("the catalog's plan names a task twice", table=self._name)
                seen.add(task)
                answers.append(self._ask("post", f"{_TABLE}/tasks", {"plan-task": task}))
                waiting.extend(answers[-1].get("plan-tasks") or ())
        return answers, self._files_for(first.get("storage-credentials") or ())

    @property
    def _name(self) -> str:
        return f"{self.catalog.name}:{'.'.join(self.identifier)}"

    def _completed(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer once the plan is completed."""
        plan, wait = str(answer.get("plan-id") or ""), _FIRST_WAIT
        until = clock.steady() + int(self.catalog.properties.get(_TIMEOUT, _DEFAULT_MS)) / 1000
        while (status := str(answer.get("status", "")).lower()) == "submitted":
            if not plan:
                raise CorruptError("the catalog plans the scan and does not say under which name", table=self._name)
            if clock.steady() > until:
                with suppress(Exception):  # it is not wanted any more, which is all that this says
                    self._ask("delete", f"{_PLAN}/{{plan}}", plan=plan)
                raise RetryableError(
                    "the catalog has not planned the scan in time", table=self._name,
                    todo=f"Try again, or wait longer: lakebed.catalog.{_TIMEOUT}",
                )  # fmt: skip
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)
            answer = self._ask("get", f"{_PLAN}/{{plan}}", plan=plan)
        if status != "completed":
            failure = answer.get("error") or {}
            raise StorageError(
                f"the catalog's plan of the scan {'was' if status == 'cancelled' else 'is'} {status or 'nameless'}",
                table=self._name, why=str(failure.get("message", "")), todo="Look in the catalog's log for the reason",
            )  # fmt: skip
        return answer

    def _ask(self, verb: str, path: str, body: Mapping[str, Any] | None = None, plan: str = "") -> dict[str, Any]:
        """The answer of the catalog, as JSON."""
        parts = self.catalog._split_identifier_for_path(self.identifier)
        url = self.catalog.url(path, prefixed=True, plan=quote(plan, safe=""), **parts)
        response: Response = getattr(self.catalog._session, verb)(url, **({} if body is None else {"json": body}))
        try:
            response.raise_for_status()
        except HTTPError as error:
            _handle_non_200_response(error, {404: NoSuchTableError} if path == _PLAN else {})
        answer = response.json() if response.content else {}
        if not isinstance(answer, dict):
            raise CorruptError("the catalog's plan cannot be read", table=self._name, why="it is no JSON object")
        return answer
