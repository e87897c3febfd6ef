"""Writes the output of all sessions on the pages again. Review the difference."""

import re
import tempfile
from pathlib import Path

from docs_pages import PAGES
from test_docs_sessions import lay_out_examples, session, typed


def retype(page: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lay_out_examples(Path(folder))
        steps = session(page.name)
        outputs = typed([step.command for step in steps], Path(folder))
    text = page.read_text("utf-8")
    for step, output in zip(steps, outputs, strict=True):
        plain = re.sub(r" +$", "", output, flags=re.MULTILINE)
        text = text.replace(f"$ {step.command}\n{step.output}", f"$ {step.command}\n{plain}", 1)
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    for page in PAGES:
        if session(page.name):
            retype(page)
