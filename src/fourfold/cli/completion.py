"""completion: a script for bash, zsh or fish."""

from __future__ import annotations

from typing import Annotated, Literal

import typer


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="bash|zsh|fish", show_default=False)],
) -> None:
    """Print the completion script of a shell.

    bash: fourfold completion bash >> ~/.bashrc; zsh: the same with ~/.zshrc;
    fish: fourfold completion fish > ~/.config/fish/completions/fourfold.fish
    """
    from typer.completion import get_completion_script  # pyright: ignore[reportPrivateImportUsage]

    typer.echo(get_completion_script(prog_name="fourfold", complete_var="_FOURFOLD_COMPLETE", shell=shell))
