"""Writes notes/requirements.md, the table of requirements and their tests. `--check` fails if it is out of date."""

import ast
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "notes" / "requirements.md"
HEAD = """# Requirements and their tests

After reading this page you know which tests verify a requirement. A test names its requirement with
`@pytest.mark.spec`; `make spec` writes this page.

| code | requirement | tests |
|---|---|---|
"""


def marks(node: ast.AST) -> list[str]:
    """The lines that a decorator or `pytestmark` names."""
    calls = (call for call in ast.walk(node) if isinstance(call, ast.Call))
    return [
        argument.value
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "spec"
        for argument in call.args
        if isinstance(argument, ast.Constant)
    ]


def proofs(path: Path) -> list[tuple[str, str]]:
    """(line, test) for every marked test of a file."""
    tree = ast.parse(path.read_text("utf-8"))
    whole = [mark for node in tree.body if isinstance(node, ast.Assign) for mark in marks(node)]
    found: list[tuple[str, str]] = []

    def visit(body: list[ast.stmt], inherited: list[str]) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                own = inherited + [mark for decorator in node.decorator_list for mark in marks(decorator)]
                if isinstance(node, ast.ClassDef):
                    visit(node.body, own)
                elif node.name.startswith("test"):
                    found.extend((line, f"{path.relative_to(ROOT / 'tests')}::{node.name}") for line in own)

    visit(tree.body, whole)
    return found


def table() -> str:
    proved: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for line, test in proofs(path):
            proved[line].append(test)
    rows = [row.split("\t") for row in (ROOT / "notes" / "requirements.tsv").read_text("utf-8").splitlines()]
    unknown = proved.keys() - {line for line, _ in rows}
    if unknown:
        sys.exit(f"tests name lines that the specification does not have: {sorted(unknown)}")
    return HEAD + "".join(
        f"| {line} | {what} | {'<br>'.join(sorted(set(proved[line]))) or '-'} |\n" for line, what in rows
    )


if __name__ == "__main__":
    if "--check" not in sys.argv:
        TARGET.write_text(table(), "utf-8")
    elif TARGET.read_text("utf-8") != table():
        sys.exit("notes/requirements.md is out of date: run `make spec`")
