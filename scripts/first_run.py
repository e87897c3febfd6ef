"""Records docs/first-run.txt: from a clone to the page in a terminal of 80 columns, with an empty home and cache."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).parent.parent
RECORD: Final = ROOT / "docs" / "first-run.txt"
STEPS: Final = (
    "git clone --quiet repository fourfold && cd fourfold",
    "python3 -m venv .venv && . .venv/bin/activate",
    "pip install --quiet .",
    "fourfold demo",
    "fourfold demo --serve",
)
"""What is typed. The last one serves until Ctrl-C."""
SERVING: Final = re.compile(r"answers at http://[\d.:]+")
KEPT: Final = re.compile("PATH|PIP_.*|SSL_.*|.*_CA_BUNDLE|.*_PROXY", re.IGNORECASE)
COLUMNS: Final = 80
ROWS: Final = 400
"""High enough that no line scrolls away."""
LONGEST_SECONDS: Final = 300.0
PROMPT: Final = "$ "


class Terminal:
    """A shell in tmux whose environment has nothing of the user's but the path and how pip reaches packages."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux")
        kept = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}
        own = {"HOME": str(folder), "PS1": PROMPT, "BROWSER": "true", "LANG": "C.UTF-8"}
        quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "VIRTUAL_ENV_DISABLE_PROMPT": "1", "TERM": "screen-256color"}
        shell = ["env", "-i", *(f"{name}={value}" for name, value in (kept | own | quiet).items()), "bash", "--norc"]
        self._tmux("new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), "-c", str(folder), *shell)

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", self._socket, "-f", os.devnull, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._tmux("capture-pane", "-p").rstrip().splitlines()]

    def run(self, command: str, end: re.Pattern[str]) -> float:
        """Types a command and returns the seconds until a new line matches."""
        begun, before = time.monotonic(), len(self.lines())
        self._tmux("send-keys", "-l", command)
        self._tmux("send-keys", "Enter")
        while not any(end.search(line) for line in self.lines()[before:]):
            if time.monotonic() - begun > LONGEST_SECONDS:
                raise SystemExit(f"{command} did not end:\n" + "\n".join(self.lines()))
            time.sleep(0.05)
        return time.monotonic() - begun

    def close(self) -> None:
        self._tmux("kill-server")


def recorded(folder: Path) -> str:
    (folder / "repository").symlink_to(ROOT)
    terminal = Terminal(folder)
    try:
        terminal.run("", re.compile(re.escape(PROMPT.strip())))
        prompt = re.compile(rf"^{re.escape(PROMPT.strip())}$")
        spent = [terminal.run(step, SERVING if step == STEPS[-1] else prompt) for step in STEPS]
        lines = terminal.lines()
    finally:
        terminal.close()
    return written(lines, spent)


def written(lines: list[str], spent: list[float]) -> str:
    """The lines, and above each command the time when it was typed."""
    load, clock = os.getloadavg()[1], 0.0
    text = [f"From a clone to the page in {sum(spent):.0f} s: {os.cpu_count()} cores, load {load:.0f}, an empty cache."]
    times = iter(spent)
    started = {f"{PROMPT}{step}" for step in STEPS}
    for line in lines:
        if line in started:
            text += ["", f"[{int(clock) // 60}:{int(clock) % 60:02}]"]
            clock += next(times)
        if line != PROMPT.strip():
            text.append(re.sub(r"(http://[\d.]+):\d+", r"\1:PORT", line))
    return "\n".join([*text, "", f"[{int(clock) // 60}:{int(clock) % 60:02}] the page is open", ""])


if __name__ == "__main__":
    with TemporaryDirectory(prefix="fourfold-first-run-", ignore_cleanup_errors=True) as temporary:
        text = recorded(Path(temporary))
    RECORD.write_text(text, encoding="utf-8")
    sys.stdout.write(text)
