"""Fuzzes one target, guided by coverage: python tests/trust/fuzz/fuzz.py TARGET CORPUS [libFuzzer options]

A failing input is written to the folder that -artifact_prefix names; add it to seeds/TARGET when the bug is fixed.
"""

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
