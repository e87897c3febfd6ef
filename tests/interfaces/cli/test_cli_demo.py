"""`fourfold demo --serve`: the workbench on the demo's notes, in a browser that it opens."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import Request, urlopen

from fourfold.cli.demo import QUESTIONS


def test_the_demo_opens_its_page_and_leaves_nothing_behind(tmp_path: Path) -> None:
    opened, temporary = tmp_path / "opened", tmp_path / "temporary"
    temporary.mkdir()
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part && mv {opened}.part {opened}\n')
    browser.chmod(0o700)
    environment = {"HOME": str(tmp_path), "TMPDIR": str(temporary), "PATH": "/usr/bin:/bin", "BROWSER": str(browser)}
    command = [sys.executable, "-I", "-m", "fourfold", "demo", "--serve"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "answers at" in line)
        deadline = time.monotonic() + 20
        while not opened.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        address = opened.read_text().strip()
        assert address in line
        with urlopen(address) as page:
            assert b"<title>Fourfold</title>" in page.read()
        body = json.dumps({"query": "BRK-4471-B"}).encode()
        request = Request(f"{address}/v1/namespaces/default/search", body, {"Content-Type": "application/json"})
        with urlopen(request) as answer:
            assert json.load(answer)["results"][0]["title"] == "Bremsbeläge am Brummer wechseln"
        with urlopen(f"{address}/v1/namespaces/default/judgements") as answer:
            judged = {each["query"] for each in json.load(answer)["judgements"]}
        assert judged >= {question.text for question in QUESTIONS if question.answer is not None}
        process.send_signal(signal.SIGINT)
        assert process.wait(10) in (0, 130)
        assert list(temporary.glob("fourfold*")) == []
    finally:
        process.kill()
        process.communicate()
