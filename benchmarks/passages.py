"""Real passages of about eighty words, cut from the documentation and sources found on this machine."""

from __future__ import annotations

import gzip
import hashlib
import html
import random
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

PASSAGE_WORDS = 80
PASSAGES_PER_FILE = 120
PASSAGES_PER_TITLE = 500
LARGEST_FILE_BYTES = 4_000_000
SYSTEM_FOLDERS = (
    "/usr/share/doc",
    "/usr/share/man",
    "/usr/share/info",
    "/usr/share/perl",
    "/usr/share/perl5",
    "/usr/lib/python3",
)
SUFFIXES = frozenset({"", ".txt", ".md", ".rst", ".py", ".html", ".pod", ".pm", ".info", ".copyright", ".debian"})
ENGLISH_MANUAL = re.compile(r"^man\d")
MANUAL_SUFFIX = re.compile(r"^\.\d\w*$")
MANUAL_MARKUP = re.compile(r"^\.\\\".*$|^[.']\w+ ?|\\f[A-Z]|\\[-&|^]|\\\([a-z]{2}", re.MULTILINE)
HTML_TAG = re.compile(r"<[^>]{1,400}>")
TITLE_WORD = re.compile(r"[a-z]{2,14}")
GENERIC_STEMS = frozenset({"readme", "changelog", "copyright", "news", "init", "index", "main", "todo", "authors"})


@dataclass(frozen=True, slots=True)
class Passage:
    """One piece of text and the title of the file it was cut from (with a running number)."""

    title: str
    text: str


def collect_passages(wanted: int, seed: int) -> tuple[list[Passage], int]:
    """Return `wanted` distinct passages, and how many of them had to be recombined from others."""
    passages = shuffled_real_passages(wanted, seed)
    missing = wanted - len(passages)
    passages.extend(recombined(passages, missing, seed))
    return passages, missing


def shuffled_real_passages(wanted: int, seed: int) -> list[Passage]:
    """Read the text files in a fixed random order until there are enough distinct passages."""
    found: list[Passage] = []
    seen: set[bytes] = set()
    numbers: Counter[str] = Counter()
    for path in shuffled_files(seed):
        base = title_base(path)
        for text in islice(distinct_pieces(path, seen), PASSAGES_PER_TITLE - numbers[base]):
            numbers[base] += 1
            found.append(Passage(f"{base} {numbers[base]}", text))
        if len(found) >= wanted:
            break
    random.Random(seed).shuffle(found)
    return found[:wanted]


def shuffled_files(seed: int) -> list[Path]:
    """List the usable files of all source folders, shuffled the same way on every run."""
    files = sorted({path for folder in source_folders() for path in text_files(folder)})
    random.Random(seed).shuffle(files)
    return files


def source_folders() -> list[Path]:
    """Return the folders to read: system documentation, the standard library, installed packages."""
    python_paths = sysconfig.get_paths()
    names = [*SYSTEM_FOLDERS, python_paths["stdlib"], python_paths["purelib"]]
    return [Path(name) for name in names if Path(name).is_dir()]


def text_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder that look like English text or source."""
    for path in folder.rglob("*"):
        if is_text_name(path) and path.is_file() and path.stat().st_size <= LARGEST_FILE_BYTES:
            yield path


def is_text_name(path: Path) -> bool:
    """Tell by its name whether a file holds readable text (manual pages: English ones only)."""
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    if "man" in path.parts:
        english = ENGLISH_MANUAL.match(path.parent.name) and path.parent.parent.name == "man"
        return bool(english and MANUAL_SUFFIX.match(plain.suffix))
    return plain.suffix.lower() in SUFFIXES


def distinct_pieces(path: Path, seen: set[bytes]) -> Iterator[str]:
    """Yield the pieces of a file whose words were not seen before, up to a fixed number."""
    for text in islice(pieces(readable_text(path)), PASSAGES_PER_FILE):
        mark = hashlib.blake2b(text.lower().encode(), digest_size=12).digest()
        if mark not in seen:
            seen.add(mark)
            yield text


def pieces(text: str) -> Iterator[str]:
    """Cut text into pieces of about eighty words, leaving out short rests and tables of numbers."""
    words = text.split()
    for start in range(0, len(words) - PASSAGE_WORDS // 2, PASSAGE_WORDS):
        piece = " ".join(words[start : start + PASSAGE_WORDS])
        letters = sum(map(str.isalpha, piece))
        if letters > 0.6 * len(piece) and len(piece) < PASSAGE_WORDS * 16:
            yield piece


def readable_text(path: Path) -> str:
    """Return a file's text without markup, or nothing if it cannot be read as text."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError):
        return ""
    if b"\0" in raw:
        return ""
    return without_markup(path, raw.decode("utf-8", errors="ignore"))


def without_markup(path: Path, text: str) -> str:
    """Remove manual-page macros or HTML tags."""
    if "man" in path.parts:
        return MANUAL_MARKUP.sub("", text)
    if ".html" in path.suffixes:
        return html.unescape(HTML_TAG.sub(" ", text))
    return text


def title_base(path: Path) -> str:
    """Name a file by one or two words of its name, helped by its folder if the name says little."""
    words = TITLE_WORD.findall(path.name.split(".")[0].lower())
    if not words or words[0] in GENERIC_STEMS:
        words = TITLE_WORD.findall(path.parent.name.lower())[:1] + words
    return " ".join(words[:2]) or "untitled"


def recombined(passages: list[Passage], missing: int, seed: int) -> list[Passage]:
    """Make further passages from the first half of one and the second half of another, with a title of both.

    So the words of texts and titles are about as common among many items as among few.
    """
    chooser = random.Random(seed + 1)
    numbers = Counter(passage.title.rpartition(" ")[0] for passage in passages)
    made: list[Passage] = []
    for _ in range(missing):
        first, second = chooser.sample(passages, 2)
        head, tail = first.text.split(), second.text.split()
        text = " ".join(head[: len(head) // 2] + tail[len(tail) // 2 :])
        base = f"{first.title.split()[0]} {second.title.split()[0]}"
        numbers[base] += 1
        made.append(Passage(f"{base} {PASSAGES_PER_TITLE + numbers[base]}", text))
    return made
