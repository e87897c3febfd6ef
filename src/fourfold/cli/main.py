"""The command line: its commands, and how each kind of failure leaves it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NoReturn

import click

from fourfold.cli.commands import COMMANDS, SECTIONS, Globals, Group, argument, global_options
from fourfold.cli.output import say_json, speak_utf8, warn
from fourfold.errors import FourfoldError, RequestError, WorldError

INTERRUPTED: Final = 130
"""What a shell reports of a program that Ctrl-C ended."""


def _print_version(ctx: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from fourfold import __version__

        click.echo(__version__)
        ctx.exit()


def _before(**values: Any) -> None:
    click.get_current_context().obj = Globals(**values)


_VERSION: Final = click.Option(
    ("--version",), is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
app: Final = Group(
    "fourfold",
    SECTIONS,
    help="Search for the memory of AI agents and for RAG: vectors, BM25, a graph and tags in one explained ranking.",
    params=[*global_options(), _VERSION],
    callback=_before,
)


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], argument(metavar="bash|zsh|fish")]) -> None:
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    kinds = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
    click.echo(kinds[shell](app, {}, "fourfold", "_FOURFOLD_COMPLETE").source())


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Exit codes: 0 success, 1 wrong request, 2 rejected by the parser, 3 failing environment, 4 damaged data,
    130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    speak_utf8()
    try:
        code: Any = app.main(arguments, prog_name="fourfold", standalone_mode=False)
    except FourfoldError as error:
        code = _report(error, arguments)
    except OSError as error:
        remedy = "Check the path, its permissions, the space left and the limit of open files"
        code = _report(WorldError(f"the system says: {error}", remedy), arguments)
    except ImportError as error:  # a library cannot be opened, such as for lack of file descriptors
        remedy = "Check the installation and the limit of open files (ulimit -n)"
        code = _report(WorldError(f"a part of Fourfold cannot be loaded: {error}", remedy), arguments)
    except click.UsageError as rejected:
        code = _reject(rejected, arguments)
    except click.Abort as aborted:
        warn("aborted")
        interrupted = isinstance(aborted.__context__, KeyboardInterrupt)
        code = INTERRUPTED if interrupted else RequestError.exit_code
    except (MemoryError, RuntimeError, ExceptionGroup) as error:
        if (lacking := _lacking(error)) is None:
            raise
        code = _report(lacking, arguments)
    raise SystemExit(code or 0)


def _lacking(error: Exception) -> WorldError | None:
    """The error to report if the system gave too little memory, or no thread; also somewhere in a group of a server."""
    from fourfold.threads import NO_THREAD, no_thread  # `--help` needs no threads

    match error:
        case MemoryError():
            return WorldError("the system gives no more memory", "Close other programs, or raise the limit (ulimit -v)")
        case RuntimeError() if str(error) == NO_THREAD:
            return no_thread()
        case ExceptionGroup():
            return next(filter(None, map(_lacking, error.exceptions)), None)
        case _:
            return None


def _report(error: FourfoldError, arguments: Sequence[str]) -> int:
    error.message = _without_secrets(error.message, arguments)
    if _wants_json(arguments):
        from fourfold.wire import error_json

        with suppress(OSError):  # such as a full disk, which the exit code also reports
            say_json(error_json(error, _command_name(arguments)))
    else:
        warn(f"error: {error.message}" + (f"\n  {error.remedy}" if error.remedy else ""))
    return error.exit_code


def _reject(rejected: Any, arguments: Sequence[str]) -> int:
    rejected.message = _without_secrets(str(rejected.message), arguments)
    if _wants_json(arguments):
        from fourfold.wire import error_json

        say_json(error_json(RequestError(rejected.format_message(), "See --help"), _command_name(arguments)))
    else:
        rejected.show()
    # A hook that exits with 2 would make Claude Code refuse the prompt.
    return RequestError.exit_code if _command_name(arguments) == "hook" else int(rejected.exit_code)


def _without_secrets(message: str, arguments: Sequence[str]) -> str:
    """The message, in which arguments that are addresses (also where a file was expected) show no password."""
    from fourfold import addresses

    values = [value for argument in arguments for value in (argument, argument.partition("=")[2])]
    for value in sorted(filter(addresses.is_address, values), key=len, reverse=True):
        for form in (value, str(Path(value))):
            message = message.replace(form, addresses.shown(value)).replace(repr(form)[1:-1], addresses.shown(value))
    return message


def _wants_json(arguments: Sequence[str]) -> bool:
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


def _command_name(arguments: Sequence[str]) -> str:
    return next((word for word in arguments if word in COMMANDS), "fourfold")
