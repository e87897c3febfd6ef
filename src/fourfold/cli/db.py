"""db start, db stop: a local PostgreSQL server from a wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fourfold.cli.output import say

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="A local PostgreSQL with pgvector, from a wheel.")

Data = Annotated[
    Path | None, typer.Option("--data", metavar="FOLDER", help="Of the server; by default beside the user's store.")
]


@app.command(help="Start the server, making it if need be, and print the address of a store on it.")
def start(data: Data = None) -> None:
    from fourfold import local_postgres

    say(local_postgres.start(_folder(data)))


@app.command(help="Stop the server. What it holds stays.")
def stop(data: Data = None) -> None:
    from fourfold import local_postgres

    say("stopped" if local_postgres.stop(_folder(data)) else "no server was running")


def _folder(given: Path | None) -> Path:
    from fourfold.config import default_store

    return given or default_store().with_name("postgres")
