"""Importing text analysis is cheap: heavy modules are loaded on first use."""

import subprocess
import sys

MODULES = ("analysis", "compounds", "entities", "fold", "language", "snippets")


LOADED = "import sys; print(sorted({'numpy', 'Stemmer'} & sys.modules.keys()))"


def loaded_after(*statements):
    program = "; ".join([*statements, LOADED])
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_loads_neither_numpy_nor_stemmer_nor_model():
    assert loaded_after(*(f"import fourfold.text.{module}" for module in MODULES)) == "[]"
