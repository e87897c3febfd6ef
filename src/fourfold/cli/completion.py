"""completion: a script for bash, zsh or fish."""

from __future__ import annotations

from typing import Annotated, Literal

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from fourfold.cli.commands import argument


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], argument(metavar="bash|zsh|fish")],
) -> None:
    """Print the completion script of a shell.

    bash: fourfold completion bash >> ~/.bashrc; zsh: the same with ~/.zshrc;
    fish: fourfold completion fish > ~/.config/fish/completions/fourfold.fish
    """
    from fourfold.cli.main import app

    kinds = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
    click.echo(kinds[shell](app, {}, "fourfold", "_FOURFOLD_COMPLETE").source())
