"""The sessions of the documentation, repeated in a real terminal, give the documented output."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from docs_pages import EXAMPLES, ROOT, blocks

pty = pytest.importorskip("pty", reason="no pseudo terminals on this system")

END = "\x1e"
TYPIST = """
import json, sys
from fourfold.cli.main import main
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as left:
        print(f"{left.code}\\x1e", flush=True)
"""
COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d|\d+\.\d+ ms")
BAR = re.compile("[█▉▊▋▌▍▎▏]+ *")
DECIMAL = re.compile(r"\d+\.\d+")
TOLERANCE = 0.05
"""The model's vectors differ slightly between kinds of processors."""


class Step(NamedTuple):
    command: str
    output: str


def session(page: str) -> list[Step]:
    """Every `$ command` of the console blocks of a page, with its output."""
    text = "".join(block.text for block in blocks("console") if block.page == page)
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [Step(*part.split("\n", 1)) for part in parts]


def typed(commands: list[str], folder: Path) -> list[str]:
    """The output of each command in a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    arguments = json.dumps([shlex.split(command)[1:] for command in commands])
    with (folder / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", TYPIST, arguments],
            stdin=theirs, stdout=theirs, stderr=errors, cwd=folder, env=environment(folder),
        )  # fmt: skip
        os.close(theirs)
        written = read_all(ours).decode().replace("\r\n", "\n")
        process.wait()
    os.close(ours)
    complaints = (folder / "stderr").read_text("utf-8")
    assert complaints == "", complaints
    outputs = COLOUR.sub("", written).split(f"{END}\n")[:-1]
    assert [output[-1:] for output in outputs] == ["0"] * len(commands), written
    return [output[:-1] for output in outputs]


def environment(folder: Path) -> dict[str, str]:
    """A user without settings; long deadlines, because other tests share the machine."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FOURFOLD_")}
    own = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"), str(folder / "home"))
    ours = {"FOURFOLD_STORE": str(folder / "store"), "FOURFOLD_RETRIEVER_SECONDS": "60"}
    return inherited | own | ours | {"TERM": "xterm-256color", "COLUMNS": "100"}


def lay_out_examples(folder: Path) -> None:
    for file in EXAMPLES.glob("*.jsonl"):
        shutil.copy(file, folder)
    shutil.copytree(EXAMPLES / "questions", folder / "questions")


def read_all(terminal: int) -> bytes:
    parts: list[bytes] = []
    try:
        while part := os.read(terminal, 65536):
            parts.append(part)
    except OSError:  # Linux raises EIO when the other side is closed
        pass
    return b"".join(parts)


def shape(output: str) -> list[str]:
    """The output without the parts that may differ: times, decimals, the length of bars, the width of columns."""
    plain = DECIMAL.sub("0.0", BAR.sub("█ ", MOMENT.sub("TIME", output)))
    return [" ".join(line.split()) for line in plain.strip("\n").splitlines()]


def decimals(output: str) -> list[float]:
    return [float(number) for number in DECIMAL.findall(MOMENT.sub("", output))]


@pytest.mark.spec("S1.11")
@pytest.mark.spec("B2")
@pytest.mark.parametrize("page", ["README.md", "get-started.md", "quality.md"])
def test_session_gives_the_documented_output(page: str, tmp_path: Path) -> None:
    lay_out_examples(tmp_path)
    steps = session(page)
    assert len(steps) >= 4
    for step, output in zip(steps, typed([step.command for step in steps], tmp_path), strict=True):
        assert shape(output) == shape(step.output), step.command
        assert decimals(output) == pytest.approx(decimals(step.output), abs=TOLERANCE), step.command


def test_ranking_page_explains_the_session_of_the_readme() -> None:
    ranking, readme = ((ROOT / name).read_text("utf-8") for name in ("docs/ranking.md", "README.md"))
    tree = [line[4:] for line in ranking.splitlines() if line.startswith("    ") and re.search("[└├]|^    2. ", line)]
    assert len(tree) == 6
    assert "\n".join(tree) in readme
