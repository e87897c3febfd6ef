"""`fourfold` with an embedder that prints wherever a library could print. Tests run it as a program.

All its output begins with "noise". NOISY_LOAD and NOISY_EMBED are the seconds that loading and embedding take.
"""

# ruff: noqa: T201

import ctypes
import logging
import os
import subprocess
import sys
import threading
import time
import warnings
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

import fourfold.embed
from fourfold.cli.main import main

DIMENSION = 8
C_LIBRARY = ctypes.CDLL(None) if os.name == "posix" else ctypes.CDLL("msvcrt")
log = logging.getLogger("noisy")
log.addHandler(logging.StreamHandler(sys.stdout))


def be_noisy(when: str) -> None:
    print(f"noise of print while it {when}", "x" * 300)
    print(f"noise of print while it {when}, flushed", flush=True)
    sys.__stdout__.write(f"noise of the first stdout while it {when}\n")  # type: ignore[union-attr]
    os.write(1, f"noise of os.write while it {when}\n".encode())
    C_LIBRARY.puts(f"noise of puts while it {when}".encode())
    C_LIBRARY.fflush(None)
    if when == "loads":
        subprocess.run(["echo", f"noise of a child process while it {when}"], check=True)
    warnings.warn(f"noise of a warning while it {when}", stacklevel=1)
    log.warning("noise of a log line while it %s", when)


def murmur() -> None:
    """Prints in a thread that never ends."""
    while True:
        os.write(1, b"noise of a thread\n")
        print("noise of a thread's print")
        time.sleep(0.002)


class Noisy:
    fingerprint = "noisy:8"
    dimension = DIMENSION

    def load(self) -> None:
        be_noisy("loads")
        threading.Thread(target=murmur, daemon=True).start()
        os.write(2, b"LOADING\n")
        time.sleep(float(os.environ.get("NOISY_LOAD", "0")))

    def embed(self, texts: Sequence[str]) -> Any:
        be_noisy("embeds")
        os.write(2, b"EMBEDDING\n")
        time.sleep(float(os.environ.get("NOISY_EMBED", "0")))
        rows = [np.random.default_rng(zlib.crc32(text.encode())).normal(size=DIMENSION) for text in texts]
        return np.asarray([row / np.linalg.norm(row) for row in rows], np.float32)

    def truncates(self, text: str) -> bool:
        return False

    def close(self) -> None:
        be_noisy("closes")


fourfold.embed.create = lambda spec, **_: Noisy()  # type: ignore[assignment]
main()
