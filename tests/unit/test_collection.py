"""How the suite itself is collected, on several workers and on an older PySpark."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import tests.conftest


def test_a_module_that_skips_itself_ends_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules whose tests all need a newer PySpark skip themselves when a worker imports its share of the suite."""
    folder = tmp_path / "own_share"
    folder.mkdir()
    (folder / "test_a.py").write_text('import pytest\npytest.skip("needs more", allow_module_level=True)\n')
    (folder / "test_b.py").write_text("there = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(tests.conftest, "HERE", folder)
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")
    config = SimpleNamespace(args=["tests"], getini=lambda name: ["tests"], getoption=lambda name: None)
    for worker in ("gw0", "gw1"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
        try:
            tests.conftest.import_own_share(cast(pytest.Config, config))
        except pytest.skip.Exception as skipped:
            pytest.fail(f"the worker ends: {skipped}")
    assert sys.modules.pop("own_share.test_b").there
    sys.modules.pop("own_share")
