"""The recorded run from a clone to the page is what README.md says, and took less than five minutes."""

import re
import runpy

from docs_pages import ROOT

from fourfold.cli.demo import QUESTIONS

FIVE_MINUTES = 300


def test_the_recorded_run_is_that_of_the_readme_and_of_the_demo() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "first_run.py"))
    lines = script["RECORD"].read_text(encoding="utf-8").splitlines()
    assert max(len(line) for line in lines[1:]) <= script["COLUMNS"]
    typed = [line.removeprefix(script["PROMPT"]) for line in lines if line.startswith(script["PROMPT"])]
    assert [line for line in typed if line in script["STEPS"]] == list(script["STEPS"])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    said = [step.replace("--quiet ", "").removesuffix(" --serve") for step in script["STEPS"][1:]]
    assert all(f"\n{step}    # " in readme for step in said)
    asked = "".join(lines)
    assert all(question.text in asked and question.point in asked for question in QUESTIONS)
    assert script["SERVING"].search(asked.replace("PORT", "1"))
    opened = re.fullmatch(r"\[(\d+):(\d\d)\] the page is open", lines[-1])
    assert opened is not None
    minutes, seconds = opened.groups()
    assert 60 * int(minutes) + int(seconds) < FIVE_MINUTES
