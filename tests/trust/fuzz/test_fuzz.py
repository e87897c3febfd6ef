"""Fuzzing of every parser, the query analyser, imports, settings and HTTP bodies."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz_targets import SUFFIXES, TARGETS

from fourfold.ingest.formats import FORMATS, TEXT, format_of

SEEDS = Path(__file__).parent / "seeds"
SECONDS = int(os.environ.get("FUZZ_SECONDS", "600"))
INPUT_BYTES = 20_000
SLOWEST_SECONDS = 20
MEMORY_MB = 2048


def seeds(target: str) -> list[Path]:
    return sorted((SEEDS / target).iterdir())


@pytest.mark.parametrize("target", TARGETS)
def test_every_sample_and_its_parts_succeed_or_raise_typed_errors(target: str) -> None:
    """The seeds include inputs that once failed."""
    found = seeds(target)
    assert found
    for seed in found:
        data = seed.read_bytes()
        for end in {0, 1, len(data) // 3, len(data) // 2, len(data) - 1, len(data)}:
            TARGETS[target](data[:end])
            TARGETS[target](data[end:])


def test_every_reader_of_a_file_format_has_a_target() -> None:
    fuzzed = {format_of(f"x.{suffix}").reader for suffixes in SUFFIXES.values() for suffix in suffixes}
    assert fuzzed == {each.reader for each in (*FORMATS, TEXT)}


@pytest.mark.soak
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris has no wheel for this platform")
def test_ten_minutes_of_coverage_guided_fuzzing_find_no_error(target: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    shutil.copytree(SEEDS / target, corpus)
    command = [sys.executable, str(Path(__file__).with_name("fuzz.py")), target, str(corpus)]
    options = [
        f"-max_total_time={SECONDS}",
        f"-max_len={INPUT_BYTES}",
        f"-timeout={SLOWEST_SECONDS}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-artifact_prefix={tmp_path}/",
        "-print_final_stats=1",
    ]
    done = subprocess.run([*command, *options], capture_output=True, text=True, errors="replace", check=False)
    runs = next((line for line in done.stderr.splitlines() if "number_of_executed_units" in line), "no statistics")
    print(f"{target}: {runs}")
    left = [path.read_bytes()[:300] for path in tmp_path.glob("*-*") if path.is_file()]
    assert done.returncode == 0, f"{left}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
