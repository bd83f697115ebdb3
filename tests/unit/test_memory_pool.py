"""Which allocator pyarrow takes in a program that imports lakebed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"
SAYS = f"import os, pyarrow; print(pyarrow.default_memory_pool().backend_name, os.environ.get({VARIABLE!r}))"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere pyarrow's own choice stands")
@pytest.mark.parametrize(
    ("imports", "variable", "says"),
    [
        ("lakebed", None, "jemalloc None"),
        ("lakebed", "system", "system system"),
        ("pyarrow, lakebed", None, "mimalloc"),
    ],
)
def test_lakebed_chooses_the_allocator_where_nobody_else_did(imports: str, variable: str | None, says: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    if variable:
        environment[VARIABLE] = variable
    words = [sys.executable, "-c", f"import {imports}; {SAYS}"]
    answer = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert answer.startswith(says)
