"""Fuzzes one target, guided by coverage: python tests/fuzz/fuzz.py TARGET CORPUS [libFuzzer options]

An input that ends badly is written to the folder that -artifact_prefix names; once fixed, it belongs to seeds/TARGET.
"""

from __future__ import annotations

import logging
import sys

import atheris

with atheris.instrument_imports(include=["fourfold", "fuzz_targets", "yaml"]):
    from fuzz_targets import TARGETS


def main() -> None:
    logging.disable(logging.CRITICAL)
    name, *rest = sys.argv[1:]
    atheris.Setup([sys.argv[0], *rest], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
