"""The page of `lakebed inspect --html` in a real browser: no console error, no request, no overflow on a phone, colours
for light and dark, and usable with a keyboard.

`./run interop` names the browser in LAKEBED_BROWSER, or has none: then these tests are skipped and say so.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import lakebed
from lakebed.cli.report_page import report_page
from tests.golden import unpack

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = os.environ.get("LAKEBED_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), "")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr",
    "--virtual-time-budget=2000", "--dump-dom",
)  # fmt: skip
DARK = ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"]
LOOK = """<script>
const style = element => getComputedStyle(element), all = names => [...document.querySelectorAll(names)];
const told = {
  width: innerWidth, content: document.documentElement.scrollWidth,
  drawn: all("svg").map(svg => svg.getBoundingClientRect()).map(box => [box.width, box.height]),
  card: style(document.querySelector(".card")).fill, title: style(document.querySelector(".title")).fill,
  fetched: performance.getEntriesByType("resource").map(entry => entry.name),
  focused: all("summary").map(one => { one.focus(); return document.activeElement === one; }),
  opened: all("details").map(one => { one.open = true; return one.offsetHeight > 30; }),
};
document.body.innerHTML = "<pre id=told></pre>";
document.getElementById("told").textContent = JSON.stringify(told);
</script>"""

pytestmark = pytest.mark.skipif(
    not BROWSER, reason="no browser on this machine: install Chromium, or set LAKEBED_BROWSER"
)


def looked(tmp_path: Path, page: str, width: int, *more: str) -> tuple[dict[str, object], list[str]]:
    """What a browser of some width makes of a page, and what it says on its console."""
    file = tmp_path / "page.html"
    file.write_text(page.replace("</body>", f"{LOOK}</body>"), encoding="utf-8")
    command = [BROWSER, *QUIET, f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900", *more]
    run = subprocess.run([*command, file.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    (told,) = re.findall(r'<pre id="told">(.*?)</pre>', run.stdout, re.DOTALL)
    return json.loads(told), [line for line in run.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def page() -> str:
    """The page of a table with pending instants, logs and a savepoint."""
    return report_page(lakebed.open(unpack("hudi", "mor_v8")).inspect())


@pytest.mark.parametrize("width", [390, 1400], ids=["phone", "desk"])
def test_the_page_in_a_browser(tmp_path: Path, page: str, width: int) -> None:
    (light, said), (dark, also_said) = looked(tmp_path, page, width), looked(tmp_path, page, width, *DARK)
    assert said == also_said == []
    for told in (light, dark):
        assert told["content"] <= told["width"], "the page is wider than the window"  # type: ignore[operator]
        assert len(told["drawn"]) == 5 and all(w > 200 and h > 60 for w, h in told["drawn"])  # type: ignore[attr-defined, arg-type]
        assert told["fetched"] == [] and set(told["focused"]) == set(told["opened"]) == {True}  # type: ignore[call-overload]
    assert (light["card"], light["title"]) == ("rgb(255, 255, 255)", "rgb(31, 35, 40)")
    assert (dark["card"], dark["title"]) == ("rgb(22, 27, 34)", "rgb(230, 237, 243)")


def test_an_error_on_the_console_would_be_seen(tmp_path: Path, page: str) -> None:
    _, said = looked(tmp_path, page.replace("</body>", "<script>nothing.there()</script></body>"), 1400)
    assert len(said) == 1 and "ReferenceError" in said[0]
