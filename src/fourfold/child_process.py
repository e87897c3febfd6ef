"""Child processes that run modules of this package, isolated from the caller's environment.

A child imports from the standard library, the folder of this package, and the site-packages of the interpreter and the
user, in this order. The working folder and all `PYTHON*` variables are ignored, so a `json.py` in an untrusted
repository is never imported. A module that runs in a child has a function `main`, which takes the child's arguments and
returns its exit code (None means 0).
"""

from __future__ import annotations

import os
import site
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parent
_BOOTSTRAP = """
import os, site, sys
folders, module, *arguments = sys.argv[1:]
sys.path += folders.split(os.pathsep)
site.main()
from importlib import import_module
sys.exit(import_module(module).main(*arguments))
"""


class CannotStart(OSError):
    """No child process can be started, or `sys.executable` is not a Python interpreter."""


def start(
    module: str,
    *arguments: str,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
    pass_fds: Collection[int] = (),
    one_thread: bool = False,
    detached: bool = False,
) -> subprocess.Popen[bytes]:
    """Run `main` of a module of this package. Paths in the arguments must be absolute. Raises CannotStart.

    `one_thread`: the child multiplies no matrices; the threads of OpenBLAS would spin for 0.1 s when it starts.
    `detached`: the child outlives this process and its terminal session.
    """
    if "python" not in Path(sys.executable or "").name.lower():
        raise CannotStart(f"{sys.executable or 'this program'} is not a Python interpreter")
    flags = 0
    if sys.platform == "win32" and detached:
        flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    users = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    folders = os.pathsep.join([str(_PACKAGE.parent), *users])
    try:
        return subprocess.Popen(  # noqa: S603  the interpreter itself, with code of this package
            [sys.executable, "-I", "-S", "-c", _BOOTSTRAP, folders, module, *arguments],
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            pass_fds=tuple(pass_fds),
            cwd=_PACKAGE,
            env=environment | ({"OPENBLAS_NUM_THREADS": "1"} if one_thread else {}),
            start_new_session=detached and sys.platform != "win32",
            creationflags=flags,
        )
    except OSError as error:
        raise CannotStart(f"no child process can be started ({error.strerror})") from error
