"""A newcomer's first hour: each command of the README and each block of the docs as printed, on a bare machine.

    ./run bench newcomer [--page docs/rows.md ...]

It clones the newest commit into an empty folder, which is also HOME, and keeps of the environment nothing but PATH.
`./run` is called in that clone. The rest runs in an environment that `pip install '.[spark]'` made, page by page, in a
folder of its own that has `examples/` as a clone's root has: shell lines by bash, Python blocks one after the other in
one process, a pipeline by `lakebed run`, a policy by `lakebed upkeep --dry-run`. docs/storage.md gets an S3 server on
this machine. LEFT_OUT says what is not run, and why. Fails where a command or a block does.

With `--page` only these pages run, and take the place of what was kept of them. Results: bench/results/newcomer.json,
from which `python -m tests.conformance.first_hour` writes docs/first-hour.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.objectstore.server import StoreServer
from tests.spark.test_readme import PAGES, blocks, without_blocks

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "newcomer.json"
README = "README.md"
LEFT_OUT = {
    "./run test": "continuous integration runs it",
    "./run test --fast": "continuous integration runs the tests",
    "./run simulate --seeds 1000": "the tests simulate as many",
    "./run simulate --format paimon --first 5000 --seeds 100000 --minutes 30": "takes the half hour that it names",
    "./run simulate --replay .cache/simulation/paimon-5123.json --trace": "needs the history of a seed that failed",
}
"""Commands of the pages that do not run here, and why."""
_IN_A_SENTENCE = re.compile(r"`((?:\./run|pip install|lakebed run) [^`]*)`")
"""Commands that the README names outside of its blocks."""
_LONGEST = 1800.0
"""Seconds that one command may take."""
SHOWN = 90
"""Characters of a command and of an answer that are kept."""


@dataclass(frozen=True)
class Step:
    """A command or a block, and what came of it. `state` is "ran", "failed" or "left out"."""

    command: str
    language: str
    state: str
    seconds: float | None
    came: str


class Machine:
    """A bare machine: a clone and two environments in a folder that is HOME."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.clone = home / "lakebed"
        self.environment = {"PATH": path_of_the_system(), "HOME": str(home), "TERM": "dumb"}
        self.sparkless = home / "without-spark"
        self.installed = home / "env"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(self.clone)], check=True)
        for folder in (self.installed, self.sparkless):
            venv.create(folder, with_pip=True, symlinks=True)

    def shell(self, line: str, here: Path, more: Mapping[str, str], remark: str = "") -> Step:
        """Run one line of a shell. The remark is kept beside the command."""
        command = without_comment(line) + remark
        if command in LEFT_OUT:
            return left_out(command)
        words = command.split()
        folder = self.clone if words[0] == "./run" or words[0] == "pip" else here
        target = self.sparkless if command == "pip install ." else self.installed
        found = {**self.environment, **more, "PATH": f"{target}/bin:{self.environment['PATH']}"}
        if words[0] == "./run":
            found = self.environment
        began = time.perf_counter()
        try:
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=folder,
                env=found,
                capture_output=True,
                text=True,
                timeout=_LONGEST,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Step(command, "sh", "failed", _LONGEST, "was still running")
        seconds = time.perf_counter() - began
        came = self.told(last_line(done.stdout) or last_line(done.stderr))
        if done.returncode:
            return Step(
                command, "sh", "failed", seconds, f"exit {done.returncode}: {self.told(last_line(done.stderr))}"
            )
        if words[0] == "pip":
            came = f"{size(target) / 1e9:.1f} GB"
        return Step(command, "sh", "ran", seconds, came)

    def told(self, text: str) -> str:
        """What came, without the names of this machine's folders, in one short line."""
        text = re.sub(re.escape(str(self.home)) + r"(/page-\d+)?", "~", text)
        return shortened(" ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split()))


class Python:
    """The Python of the newcomer's environment, which keeps its names from block to block."""

    def __init__(self, machine: Machine, here: Path, more: Mapping[str, str]) -> None:
        self._machine = machine
        their_end, self._asked = os.pipe()
        self._told, other_end = os.pipe()
        command = [str(machine.installed / "bin" / "python"), str(ROOT / "bench" / "newcomer_blocks.py")]
        self._log = (here / "python.log").open("w")
        self._process = subprocess.Popen(
            [*command, str(their_end), str(other_end)],
            cwd=here,
            env={**machine.environment, **more},
            pass_fds=(their_end, other_end),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        os.close(their_end)
        os.close(other_end)
        self._answers = os.fdopen(self._told)

    def run(self, text: str) -> Step:
        """Run one block."""
        os.write(self._asked, (json.dumps(text) + "\n").encode())
        command = shortened(speaking_line(text))
        line = self._answers.readline()
        if not line:
            return Step(command, "python", "failed", None, "Python ended")
        answer = json.loads(line)
        if answer["error"]:
            return Step(command, "python", "failed", answer["seconds"], self._machine.told(answer["error"]))
        printed = (
            f"{counted(answer['lines'], 'line')}, the last: {answer['printed']}" if answer["lines"] else "no error"
        )
        return Step(command, "python", "ran", answer["seconds"], self._machine.told(printed))

    def close(self) -> None:
        """End the process."""
        os.close(self._asked)
        self._process.wait(timeout=120)
        self._answers.close()
        self._log.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="append", help="only this page, e.g. docs/rows.md; may be given again")
    given = parser.parse_args()
    pages = [page for page in PAGES if not given.page or page.relative_to(ROOT).as_posix() in given.page]
    if not pages or (given.page and len(pages) != len(given.page)):
        parser.error(f"no such page: {', '.join(given.page)}")
    kept = json.loads(RESULTS.read_text())["pages"] if given.page and RESULTS.exists() else {}
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder:
        machine = Machine(Path(folder))
        if README not in (page.name for page in pages):
            subprocess.run(
                [machine.installed / "bin" / "pip", "install", "-q", ".[spark]"],
                cwd=machine.clone,
                env=machine.environment,
                check=True,
            )
        for number, page in enumerate(pages):
            here = Path(folder) / f"page-{number}"
            here.mkdir()
            (here / "examples").symlink_to(machine.clone / "examples")
            steps = []
            for step in steps_of(machine.clone / page.relative_to(ROOT), machine, here):
                took = "" if step.seconds is None else f"{step.seconds:.1f} s"
                print(f"{page.name:22} {step.state:8} {took:>8}  {step.command}  ->  {step.came}", flush=True)
                steps.append(asdict(step) | {"seconds": None if step.seconds is None else round(step.seconds, 1)})
            if steps:
                kept[page.relative_to(ROOT).as_posix()] = steps
                keep(kept)
    failed = [(page, step) for page, steps in kept.items() for step in steps if step["state"] == "failed"]
    for page, step in failed:
        print(f"{page}: {step['command']}: {step['came']}", file=sys.stderr)
    sys.exit(bool(failed))


def keep(pages: Mapping[str, list[dict[str, object]]]) -> None:
    """Write what came so far. Pages that are no more are left out."""
    there = {page.relative_to(ROOT).as_posix() for page in PAGES}
    found = {
        "when": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "system": platform.system(),
            "java": java(),
            "load": round(os.getloadavg()[0], 1),
        },
        "pages": {page: [*map(as_of_today, steps)] for page, steps in sorted(pages.items()) if page in there},
    }
    RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def as_of_today(step: dict[str, object]) -> dict[str, object]:
    """A step that was kept; one of a command that is no longer run has no figures of the time when it was."""
    command = str(step["command"])
    return asdict(left_out(command)) if command in LEFT_OUT else step


def left_out(command: str) -> Step:
    return Step(command, "sh", "left out", None, LEFT_OUT[command])


def steps_of(page: Path, machine: Machine, here: Path) -> Iterator[Step]:
    """What came of each block of a page, in the order of the page."""
    with ExitStack() as stack:
        more = {}
        if page.stem == "storage":
            server = stack.enter_context(closing_server())
            server.client().create_bucket(Bucket="lake")
            more = dict(server.environment)
        python: Python | None = None
        done: set[str] = set()
        for language, text in blocks(page):
            if language == "python":
                if python is None:
                    python = Python(machine, here, more)
                    stack.callback(python.close)
                yield python.run(text)
            elif language == "toml":
                yield machine.shell(toml_command(text, here), here, more)
            elif language == "sh":
                for line in text.splitlines():
                    if without_comment(line):
                        done.add(without_comment(line))
                        yield machine.shell(line, here, more)
        if page.name == README:
            for command in dict.fromkeys(_IN_A_SENTENCE.findall(without_blocks(page))):
                if command not in done:
                    yield machine.shell(command, here, more)
            yield machine.shell("./run demo", here, more, " (again)")


def toml_command(text: str, here: Path) -> str:
    """Write a pipeline or a policy to a file, and say the command that takes it."""
    name = "pipeline.toml" if "[source]" in text else "policy.toml"
    (here / name).write_text(text, encoding="utf-8")
    return (
        f"lakebed run {name}"
        if "[source]" in text
        else f"lakebed upkeep examples/orders_hudi --policy {name} --dry-run"
    )


@contextmanager
def closing_server() -> Iterator[StoreServer]:
    server = StoreServer()
    try:
        yield server
    finally:
        server.stop()


def without_comment(line: str) -> str:
    """A line of a shell block, less what it says beside the command."""
    return " ".join(line.partition(" #")[0].split())


def speaking_line(text: str) -> str:
    """The line of a block that says most of what it is for: the first that imports nothing."""
    lines = [line.partition("  #")[0].strip() for line in text.splitlines()]
    return next((line for line in lines if line and not line.startswith(("import ", "from ", "#"))), lines[0])


def shortened(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 3].rstrip() + "..."


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("s" if number != 1 else "")


def last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def size(folder: Path) -> int:
    """Bytes of the files of a folder, a hard link once."""
    seen = {(found.st_dev, found.st_ino): found.st_size for found in (f.lstat() for f in folder.rglob("*"))}
    return sum(seen.values())


def java() -> str:
    """The Java that is there, by its own words; "" where there is none."""
    try:
        said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        return ""
    match = re.search(r'version "(\d+)', said)
    return match[1] if match else ""


def path_of_the_system() -> str:
    """PATH without the environment that this program runs in."""
    own = Path(sys.prefix).resolve()
    return os.pathsep.join(
        p for p in os.environ["PATH"].split(os.pathsep) if p and own not in Path(p).resolve().parents
    )


if __name__ == "__main__":
    main()
