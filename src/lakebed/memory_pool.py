"""Which allocator pyarrow takes in this process: jemalloc, where it has it and lakebed is what loads pyarrow.

pyarrow decides this once, when it is loaded. Its own choice, mimalloc, keeps for each thread what the thread has freed:
a read that holds 15 MB then takes 120 MB of the machine. jemalloc gives most of it back, at the same speed. A program
that loaded pyarrow before, or that sets ARROW_DEFAULT_MEMORY_POOL, keeps its choice, and programs that it starts see no
variable of ours.
"""

import os
import sys

_VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"

if sys.platform == "linux" and "pyarrow" not in sys.modules and _VARIABLE not in os.environ:
    os.environ[_VARIABLE] = "jemalloc"
    try:
        import pyarrow  # noqa: F401
    finally:
        del os.environ[_VARIABLE]
