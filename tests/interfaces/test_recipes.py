"""The recipes of CONTRIBUTING.md for an embedder and a reader, each followed in a copy of the package.

Those for a field, an operation and a retriever have tests of their own: test_new_field, test_new_operation and
test_descriptions.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

EMBEDDER = '''
from fourfold.embed.base import BaseEmbedder, completed

class Letters(BaseEmbedder):
    """Counts letters: similar spelling is near."""

    name = "letters"
    dimension = 26

    def embed(self, texts):
        return [[1.0 + text.lower().count(chr(97 + place)) for place in range(26)] for text in texts]

def letters():
    return completed(Letters())
'''
READER = '''
from fourfold.ingest.document import Document, Section, numbered

def read(content, name):
    """Outlines: a section begins at each line with a star."""
    sections, heading, lines = [], (), []
    for line in numbered(content):
        if line.text.startswith("* "):
            sections.append(Section(heading, lines))
            heading, lines = (line.text[2:],), []
        else:
            lines.append(line)
    return Document("", [*sections, Section(heading, lines)])
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "encoders")
    return shutil.copytree(ROOT / "src" / "fourfold", tmp_path / "src" / "fourfold", ignore=ignored)


def add_line(file: Path, before: str, line: str) -> None:
    text = file.read_text("utf-8")
    assert text.count(before) == 1
    file.write_text(text.replace(before, f"{line}{before}"), "utf-8")


def run(package: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line of the copy."""
    code = f"import sys; sys.path.insert(0, {str(package.parent)!r}); from fourfold.cli.main import main; main()"
    command = [sys.executable, "-I", "-c", code, "--store", str(package.parent / "store"), *arguments]
    variables = {**os.environ, "XDG_CONFIG_HOME": str(package.parent), **environment}
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)


def test_an_embedder_is_one_file_and_one_line(package: Path) -> None:
    (package / "embed" / "letters.py").write_text(EMBEDDER, "utf-8")
    factory = package / "embed" / "__init__.py"
    add_line(factory, "from fourfold.errors import", "from fourfold.embed.letters import letters\n")
    add_line(factory, '    "openai": lambda', '    "letters": lambda openai, provider: letters(),\n')
    for text in ("Harbour gate opens at six", "zzz"):
        assert run(package, "add", text, "--wait", FOURFOLD_EMBEDDER="letters").returncode == 0
    answer = run(package, "search", "harbor gates", "--only", "semantic", "--json", FOURFOLD_EMBEDDER="letters")
    assert json.loads(answer.stdout)["results"][0]["id"] == 1
    assert "letters" in run(package, "search", "x", FOURFOLD_EMBEDDER="no").stderr, "the remedy lists it"


def test_a_reader_is_one_function_and_one_line(package: Path) -> None:
    (package / "ingest" / "readers" / "outline.py").write_text(READER, "utf-8")
    add_line(
        package / "ingest" / "formats.py", '    Format("html", "html', '    Format("outline", "org", "outline.read"),\n'
    )
    folder = package.parent / "notes"
    folder.mkdir()
    sections = [f"* {name}\n" + f"Everything about {name.lower()} is kept here. " * 12 for name in ("Tyres", "Brakes")]
    (folder / "bikes.org").write_text("\n".join(sections) + "\n", "utf-8")
    assert run(package, "index", str(folder), FOURFOLD_EMBEDDER="none").returncode == 0
    answer = run(package, "search", "brakes", "--kind", "outline", "--json", FOURFOLD_EMBEDDER="none")
    first = json.loads(answer.stdout)["results"][0]
    assert (first["title"], first["metadata"]["line"]) == ("bikes › Brakes", 4)
