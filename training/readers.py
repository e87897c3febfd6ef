"""Read German translations and their English originals from files of Debian packages.

Every reader yields pairs (English, German) of texts as the files have them; `pairs.py` cleans and selects.
"""

from __future__ import annotations

import ast
import bz2
import gettext
import gzip
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import align
from align import Block

Pairs = Iterator[tuple[str, str]]

SPACE = re.compile(r"\s+")
TAG = re.compile(r"<[^<>]{1,400}>")


def text_of(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    if path.suffix == ".bz2":
        content = bz2.decompress(content)
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1")


def catalogue(path: Path) -> Pairs:
    """A compiled gettext catalogue. Of plural forms the last one counts."""
    with path.open("rb") as file:
        entries = gettext.GNUTranslations(file)._catalog  # pyright: ignore[reportAttributeAccessIssue]
    for key, german in entries.items():
        english, form = key if isinstance(key, tuple) else (key, 1)
        if english and form != 0:
            yield english.rsplit("\x04", 1)[-1], german


def po_file(path: Path) -> Pairs:
    """A gettext source file, without entries that are marked as fuzzy."""
    for entry in re.split(r"\n\s*\n", text_of(path)):
        if re.search(r"^#,.*fuzzy", entry, re.M):
            continue
        parts: dict[str, str] = {}
        field = ""
        for line in entry.splitlines():
            if named := re.match(r"(msgctxt|msgid_plural|msgid|msgstr(?:\[\d\])?)\s", line):
                field = named[1]
            if not line.startswith("#") and (quoted := re.search(r'"((?:[^"\\]|\\.)*)"', line)):
                parts[field] = parts.get(field, "") + quoted[1].replace(r"\n", " ").replace(r"\"", '"').replace(
                    r"\t", " "
                )
        english = parts.get("msgid_plural") or parts.get("msgid")
        german = parts.get("msgstr") or parts.get("msgstr[1]")
        if english and german:
            yield english, german


PARAGRAPH = "p|para|simpara|title|term|td|th|li|h[1-6]|dt|dd|desc|entry|primary|secondary"
ELEMENT = re.compile(
    rf"<({PARAGRAPH})\b[^>]*>((?:(?!<(?:{PARAGRAPH}|div|ul|ol|table|pre)\b).)*?)(?=</\1>|<(?:{PARAGRAPH}|div|ul|ol|table)\b)",
    re.S,
)
INVISIBLE = re.compile(r"<!--.*?-->|<(script|style|pre|programlisting|screen)\b.*?</\1>", re.S)


def marked_up(english: Path, german: Path) -> Pairs:
    """Two versions of an HTML, DocBook or Mallard page."""
    yield from align.pairs(_elements(text_of(english)), _elements(text_of(german)))


def _elements(source: str) -> list[Block]:
    found = ((match[1], _plain(match[2])) for match in ELEMENT.finditer(INVISIBLE.sub("", source)))
    return [Block(kind, text) for kind, text in found if text]


def _plain(markup: str) -> str:
    return SPACE.sub(" ", html.unescape(TAG.sub("", markup))).strip()


IDENTIFIED = re.compile(r'<(p|h[1-6]|td|li)\b[^>]*\bid="([^"]+)"[^>]*>(.*?)</\1>', re.S)


def identified(english: Path, german: Path) -> Pairs:
    """Two versions of a page of LibreOffice's help, whose elements carry the same ids."""
    originals = {match[2]: match[3] for match in IDENTIFIED.finditer(text_of(english))}
    for match in IDENTIFIED.finditer(text_of(german)):
        if match[2] in originals:
            yield _plain(originals[match[2]]), _plain(match[3])


def messages(english: Path, german: Path) -> Pairs:
    """Two JSON files of messages by key, nested or not, with MediaWiki's links reduced to their words."""
    original, translated = (json.loads(text_of(path)) for path in (english, german))
    yield from _same_keys(original.get("en", original), translated.get("de", translated))


def _same_keys(original: object, translated: object) -> Pairs:
    if isinstance(original, str) and isinstance(translated, str):
        yield _without_wiki(original), _without_wiki(translated)
    elif isinstance(original, dict) and isinstance(translated, dict):
        for key, text in translated.items():
            yield from _same_keys(original.get(key), text)


def _without_wiki(text: str) -> str:
    return re.sub(r"'''?|\[\[(?:[^\]|]*\|)?([^\]]*)\]\]|\{\{[^{}]*\}\}", lambda match: match[1] or "", text)


DIALOGUE = re.compile(r'dialogId\([^,]*,[^,]*,\s*"((?:[^"\\]|\\.)*)"\)\s*dialogStr\("((?:[^"\\]|\\.)*)"\)')


def dialogues(german: Path) -> Pairs:
    """Dialogues of the game Fish Fillets: each entry holds the original and its translation."""
    for match in DIALOGUE.finditer(text_of(german)):
        yield match[1].replace("\\", ""), match[2].replace("\\", "")


# Luther's Bible in the order of the English canon, by the names of its files.
BOOKS = (
    "1Mo", "2Mo", "3Mo", "4Mo", "5Mo", "Jos", "Ri", "Ru", "1Sa", "2Sa", "1Kön", "2Kön", "1Chr", "2Chr", "Esr", "Neh",
    "Est", "Hi", "Ps", "Spr", "Pre", "Hoh", "Jes", "Jer", "Kla", "Hes", "Da", "Hos", "Joe", "Am", "Ob", "Jon", "Mic",
    "Na", "Hab", "Zef", "Hag", "Sac", "Mal", "Mt", "Mk", "Lk", "Joh", "Apg", "Röm", "1Kor", "2Kor", "Gal", "Eph",
    "Phil", "Kol", "1Th", "2Th", "1Tim", "2Tim", "Tit", "Phim", "Hebr", "Jak", "1Petr", "2Petr", "1Jo", "2Jo", "3Jo",
    "Jud", "Offb",
)  # fmt: skip


def bible(english: Path, german: Path) -> Pairs:
    """Verses of a module of pythonbible and of a folder in Zefania's XML.

    Where German chapters have one or two verses more, those are the heading of a psalm. Other differences mean that
    the chapters begin at other places, and the chapter is left out.
    """
    originals = _numbered_verses(english)
    for number, book in enumerate(BOOKS, 1):
        for chapter in ElementTree.fromstring(text_of(german / f"{book}.xml").lstrip("\ufeff")).iter("CHAPTER"):
            translated = ["".join(verse.itertext()) for verse in chapter.iter("VERS")]
            original = originals.get((number, int(chapter.attrib["cnumber"])), [])
            heading = len(translated) - len(original)
            if heading == 0 or (book == "Ps" and heading in (1, 2)):
                yield from zip(original, translated[heading:], strict=True)


def _numbered_verses(module: Path) -> dict[tuple[int, int], list[str]]:
    """The verses of each (book, chapter), read without running the module."""
    made = next(node for node in ast.walk(ast.parse(text_of(module))) if isinstance(node, ast.Call))
    text, starts = ast.literal_eval(made.args[1]), ast.literal_eval(made.args[2])
    places = sorted(starts.items())
    chapters: dict[tuple[int, int], list[str]] = {}
    for place, (verse, start) in enumerate(places):
        end = places[place + 1][1] if place + 1 < len(places) else len(text)
        chapter = (verse // 1_000_000, verse // 1_000 % 1_000)
        chapters.setdefault(chapter, []).append(re.sub(r"^\s*\d+\.\s*", "", text[start:end]).strip())
    return chapters


def manual_page(english: Path, german: Path) -> Pairs:
    yield from align.pairs(_troff(text_of(english)), _troff(text_of(german)))


HEADINGS = ("SH", "SS", "Sh", "Ss")
BREAKS = ("PP", "P", "LP", "TP", "IP", "Pp", "RS", "RE", "sp", "HP", "TQ", "It", "br")
FONTS = ("B", "I", "BR", "IR", "RB", "BI", "IB", "RI", "SM", "SB")


def _troff(source: str) -> list[Block]:
    blocks: list[Block] = []
    words: list[str] = []
    literal = False

    def end(kind: str = "p") -> None:
        if text := _without_escapes(" ".join(words)):
            blocks.append(Block(kind, text))
        words.clear()

    for line in source.splitlines():
        request = re.match(r"[.']\s*(\w+)\s*(.*)", line)
        if not request:
            if line.strip() and not literal and not line.startswith((".\\", "'\\")):
                words.append(line.strip())
            elif not line.strip():
                end()
            continue
        name, argument = request.groups()
        if name in ("nf", "EX", "fi", "EE"):
            end()
            literal = name in ("nf", "EX")
        elif name in HEADINGS:
            end()
            words.append(argument.strip('"'))
            end("h")
        elif name in BREAKS:
            end()
        elif name in FONTS and not literal:
            joined = re.sub(
                r'"([^"]*)"|(\S+)\s*', lambda match: match[1] if match[1] is not None else match[2], argument
            )
            words.append(joined if len(name) == 2 else argument.replace('"', ""))
    end()
    return blocks


def _without_escapes(text: str) -> str:
    text = re.sub(r"\\f(\[[^\]]*\]|\(..|.)|\\s[-+]?\d|\\[&/,:%|^~]|\\c|\\m\[[^\]]*\]", "", text)
    text = re.sub(r"\\\[?\(?(aq|cq|oq|lq|rq|dq|Bq|bq|Fo|Fc|bu|em|en|tm|co|ga|ha|ti)\]?", " ", text)
    return SPACE.sub(" ", text.replace(r"\-", "-").replace(r"\e", "\\").replace(r"\ ", " ")).strip()


def descriptions(english: Path, german: Path) -> Pairs:
    """Descriptions of packages, paired by the checksum of the original."""
    originals = dict(_descriptions(text_of(english), "en"))
    for checksum, paragraphs in _descriptions(text_of(german), "de"):
        original = originals.get(checksum, [])
        if len(original) == len(paragraphs):
            yield from zip(original, paragraphs, strict=True)


def _descriptions(text: str, language: str) -> Iterator[tuple[str, list[str]]]:
    for stanza in text.split("\n\n"):
        checksum = re.search(r"^Description-md5: (\S+)", stanza, re.M)
        described = re.search(rf"^Description-{language}: (.*(?:\n .*)*)", stanza, re.M)
        if checksum and described:
            title, _, body = described[1].partition("\n")
            paragraphs = re.split(r"\n \.\n|\n(?=\s*[*-] )", "\n" + body)
            yield checksum[1], [title, *(SPACE.sub(" ", each).strip() for each in paragraphs if each.strip(" .\n"))]


def ding(path: Path) -> Pairs:
    """Ding's dictionary: German and English variants side by side."""
    for line in text_of(path).splitlines():
        german, separator, english = line.partition("::")
        if line.startswith("#") or not separator:
            continue
        for german_entry, english_entry in zip(german.split("|"), english.split("|"), strict=False):
            yield from _variants(_headwords(english_entry, "to "), _headwords(german_entry))


def _headwords(entry: str, prefix: str = "") -> list[str]:
    entry = re.sub(r"\{[^}]*\}|\[[^\]]*\]|<[^>]*>|/[^/]*/|\([^)]*\)", " ", entry)
    words = (SPACE.sub(" ", word).strip(" ,").removeprefix(prefix) for word in entry.split(";"))
    return [word for word in words if word]


def _variants(english: list[str], german: list[str]) -> Pairs:
    if len(english) == len(german):
        yield from zip(english, german, strict=True)
    elif english and german:
        yield from ((word, german[0]) for word in english[:3])
        yield from ((english[0], word) for word in german[1:4])


def glosses(path: Path) -> Iterator[str]:
    """Definitions and example sentences of WordNet, in English only."""
    for line in text_of(path).splitlines():
        words, separator, gloss = line.partition(" | ")
        if not separator:
            continue
        definition = re.sub(r';?\s*"[^"]*"', "", gloss).strip(" ;")
        if len(definition.split()) >= 3:
            yield f"{words.split()[4].replace('_', ' ')}: {definition}" if len(definition) % 2 else definition
        yield from (example for example in re.findall(r'"([^"]+)"', gloss) if len(example.split()) >= 3)
