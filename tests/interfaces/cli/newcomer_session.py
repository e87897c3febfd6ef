"""The first session of a newcomer, typed into tmux: what the screen shows after each command.

`python tests/interfaces/cli/newcomer_session.py` writes the fixtures in `screens/` again. Read the difference.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
SCREENS = FOLDER / "screens"
EXAMPLES = FOLDER.parents[2] / "docs" / "examples"
SECONDS = 300
"""Seconds after which a command counts as hung."""
NOON = 1_794_744_000
"""2026-11-15 12:00 UTC, the time of the files."""
ROWS = 60
SESSION = (
    'fourfold search "I am locked out, who can help?"',
    'fourfold add "The spare key is with Mrs Okafor on the second floor" --tag home --at 2026-11-15T10:00',
    "fourfold import team.jsonl",
    "fourfold index notes",
    'fourfold search "I am locked out, who can help?" -k 2',
    'fourfold search "which database holds the invoices?" -k 2 --explain',
    'fourfold search "how do I restart the mail server?" -k 2',
    'fourfold add "The spare key is with Mrs Okafor on the second floor" --title "Spare key"',
    "fourfold graph nodes --like kestrel",
    "fourfold graph show Kestrel",
    "fourfold list --limit 3 --tag shop",
    "fourfold update 1 --titel Key",
    "fourfold export team.jsonl",
)
TYPIST = """
import json, subprocess, sys
from fourfold.cli.main import main
for number, (command, arguments) in enumerate(json.loads(sys.argv[1])):
    print(f"\\x1b[2J\\x1b[H$ {command}", flush=True)
    try:
        main(arguments)
    except SystemExit as left:
        print(f"[exit code {left.code or 0}]", flush=True)
    subprocess.run(["tmux", "wait-for", "-S", f"done-{number}"], check=True)
    subprocess.run(["tmux", "wait-for", f"go-{number}"], check=True)
"""


class Look(NamedTuple):
    columns: int
    colours: bool

    @property
    def file(self) -> Path:
        return SCREENS / f"{self.columns}-columns-{'dark' if self.colours else 'no-colour'}.txt"


LOOKS = tuple(Look(*look) for look in product((80, 60), (True, False)))


def has_tmux() -> bool:
    """Whether tmux is installed; as root, installs it from the distribution."""
    if shutil.which("tmux") is None and hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        command = ["apt-get", "install", "--yes", "--no-install-recommends", "tmux"]
        subprocess.run(command, capture_output=True, check=False, timeout=SECONDS)
    return shutil.which("tmux") is not None


def screens(look: Look, folder: Path) -> Iterator[str]:
    """What the terminal shows after each command, with styles made visible."""
    _lay_out(folder)
    typed = json.dumps([(command, shlex.split(command)[1:]) for command in SESSION])
    with _terminal(look, folder, [sys.executable, "-c", TYPIST, typed]) as tmux:
        for number in range(len(SESSION)):
            tmux("wait-for", f"done-{number}")
            yield _shown(tmux("capture-pane", "-p", *(["-e"] if look.colours else [])))
            tmux("wait-for", "-S", f"go-{number}")


@contextmanager
def _terminal(look: Look, folder: Path, program: list[str]):
    with tempfile.TemporaryDirectory(prefix="fourfold-tmux-") as private:
        socket = ["tmux", "-u", "-f", "/dev/null", "-S", f"{private}/socket"]

        def tmux(*arguments: str) -> str:
            done = subprocess.run(
                [*socket, *arguments],
                env=_environment(look, folder), cwd=folder, capture_output=True, text=True, check=True, timeout=SECONDS,
            )  # fmt: skip
            return done.stdout

        size = ["-x", str(look.columns), "-y", str(ROWS)]
        tmux("new-session", "-d", *size, shlex.join(program))
        try:
            yield tmux
        finally:
            subprocess.run([*socket, "kill-server"], capture_output=True, check=False)


def _environment(look: Look, folder: Path) -> dict[str, str]:
    """The environment of a user without settings, with time limits that do not depend on the load."""
    left = ("FOURFOLD_", "TMUX", "COLUMNS", "LINES", "NO_COLOR", "COLORTERM", "FORCE_COLOR", "LC_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(left)}
    own = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"), str(folder / "home"))
    ours = {"FOURFOLD_STORE": "memory", "FOURFOLD_RETRIEVER_SECONDS": "60", "TZ": "UTC", "LANG": "C.UTF-8"}
    return inherited | own | ours | ({} if look.colours else {"NO_COLOR": "1"})


def _lay_out(folder: Path) -> None:
    shutil.copy(EXAMPLES / "team.jsonl", folder)
    for name in ("mail", "web"):
        notes = folder / "notes" / name
        notes.mkdir(parents=True)
        server = "# Servers\n\n" + f"The {name} team looks after them.\n\n" * 40
        (notes / "servers.md").write_text(server + "## Restart\n\nRestart the server with **systemctl restart**.\n")
        os.utime(notes / "servers.md", (NOON, NOON))


_STYLE = re.compile(r"\x1b\[([0-9;]*)m")
_WEIGHTS = {"1": "bold", "2": "dim"}
_COLOURS = {"31": "red", "32": "green", "33": "yellow", "34": "blue", "35": "magenta", "36": "cyan"}
_COLUMN = re.compile(r"\b\d\.\d{4}(?=  )")
_DECIMAL = re.compile(r"\b\d+\.\d{3,}\b")
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b")
_BAR = re.compile("[█▉▊▋▌▍▎▏]+ *(⟦⟧)? *")


def _shown(screen: str) -> str:
    """The screen with rounded scores, bars of one length, fixed times, and no blank lines at the end."""
    timeless = _MOMENT.sub("2026-11-15 12:00", _BAR.sub(r"█\1 ", _styled(screen)))
    aligned = _COLUMN.sub(lambda number: f"  {float(number[0]):.2f}", timeless)
    rounded = _DECIMAL.sub(lambda number: f"{float(number[0]):.2f}", aligned)
    return "\n".join(line.rstrip() for line in rounded.rstrip().splitlines()) + "\n"


def _styled(screen: str) -> str:
    """The screen with ⟦bold cyan⟧words⟦⟧ instead of escape sequences, which depend on the version of tmux."""
    parts, style = [], dict[str, str]()
    texts = _STYLE.split(screen)
    for text, codes in zip(texts[::2], [*texts[1::2], ""], strict=True):
        name = " ".join(style.values())
        parts += [_tagged(line, name) for line in text.splitlines(keepends=True)]
        for code in codes.split(";"):
            _apply(style, code)
    return "".join(parts)


def _tagged(line: str, name: str) -> str:
    return f"⟦{name}⟧{line.rstrip()}⟦⟧{line[len(line.rstrip()) :]}" if name and line.strip() else line


def _apply(style: dict[str, str], code: str) -> None:
    if code in ("", "0"):
        style.clear()
    elif code in _WEIGHTS:
        style["weight"] = _WEIGHTS[code]
    elif code in _COLOURS:
        style["colour"] = _COLOURS[code]
    elif code in ("22", "39"):
        style.pop("weight" if code == "22" else "colour", None)


def joined(look: Look) -> str:
    with tempfile.TemporaryDirectory(prefix="fourfold-newcomer-") as folder:
        return "\n".join(screens(look, Path(folder)))


if __name__ == "__main__":
    assert has_tmux(), "tmux is needed"
    for look in LOOKS:
        look.file.write_text(joined(look), "utf-8")
