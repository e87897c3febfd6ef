"""Tests of the kernel compiled with the address and undefined-behaviour sanitizers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fourfold.native import bindings

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src" / "fourfold"
TESTS = (
    "tests/unit/native/test_native_kernel.py", "tests/unit/native/test_native_codes.py",
    "tests/unit/native/test_native_nearest.py", "tests/unit/native/test_native_postings.py",
    "tests/unit/native/test_native_damaged.py", "tests/stores/storage/test_storage_link_columns.py",
    "tests/unit/text/test_text_analysis.py", "tests/unit/text/test_text_language.py",
    "tests/unit/text/test_text_secrets.py",
)  # fmt: skip
SANITIZED = ["-std=c99", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fPIC", "-shared"]


def runtime() -> str | None:
    """Path of the sanitizer library to preload; None if gcc has none."""
    if sys.platform != "linux" or not shutil.which("gcc"):
        return None
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    path = Path(found.stdout.strip())
    return str(path) if path.is_absolute() else None


def package_with(kernel_flags: list[str], folder: Path) -> Path:
    """Copy the package with a kernel compiled with these flags."""
    package = folder / "fourfold"
    package.mkdir(parents=True)
    for path in PACKAGE.iterdir():
        if path.name not in ("native", "__pycache__"):
            (package / path.name).symlink_to(path)
    shutil.copytree(PACKAGE / "native", package / "native", ignore=shutil.ignore_patterns("*.so*", "__pycache__"))
    sources = map(str, sorted((package / "native").glob("*.c")))
    made = str(package / "native" / bindings.NAME)
    subprocess.run(["gcc", *kernel_flags, "-o", made, *sources, "-lm", "-pthread"], check=True)
    return folder


@pytest.mark.soak
@pytest.mark.skipif(runtime() is None, reason="no gcc with its sanitizers")
def test_the_kernel_has_no_undefined_behaviour_and_no_access_out_of_bounds(tmp_path: Path) -> None:
    folder = package_with(SANITIZED, tmp_path)
    environment = {
        **os.environ, "LD_PRELOAD": str(runtime()), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": str(folder),
        "PYTHONMALLOC": "malloc",
    }  # fmt: skip
    check = f"from fourfold.native import bindings; assert bindings.__file__.startswith({str(folder)!r})"
    subprocess.run([sys.executable, "-c", check], env=environment, cwd=folder, check=True)
    # a forked child may wait for a lock of the sanitizer's own malloc
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-n",
        "0",
        "-k",
        "not (forked or questions_find)",
        *TESTS,
    ]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
