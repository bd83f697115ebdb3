"""The vectors that the normal tests hold lakebed's casts against are what Paimon's engine prints."""

import os
import subprocess

from tests.golden.test_paimon_casts import VECTORS
from tests.interop.conftest import named


def test_the_vectors_are_what_the_engine_prints() -> None:
    java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else "java"
    command = [java, "-Xmx1g", "-cp", named("LAKEBED_PAIMON_CLASSPATH"), "CastVectors"]
    printed = subprocess.run(command, capture_output=True, check=True, timeout=300).stdout.decode().splitlines()
    kept = VECTORS.read_text(encoding="utf-8").splitlines()
    assert [(one, other) for one, other in zip(printed, kept, strict=True) if one != other] == []
