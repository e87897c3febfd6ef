"""Pairs of German and English texts from files as Debian packages have them."""

import gzip
import lzma
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

TRAINING = Path(__file__).parents[2] / "training"
sys.path.insert(0, str(TRAINING))

import align  # noqa: E402
import licences  # noqa: E402
import pairs  # noqa: E402
import readers  # noqa: E402
import weights  # noqa: E402


def test_documents_of_the_same_structure_are_paired_by_place():
    english = [align.Block("h", "Install"), align.Block("p", "Run the installer.")]
    german = [align.Block("h", "Installation"), align.Block("p", "Starten Sie das Installationsprogramm.")]
    assert align.pairs(english, german) == [
        ("Install", "Installation"),
        ("Run the installer.", "Starten Sie das Installationsprogramm."),
    ]


def test_a_missing_paragraph_does_not_shift_the_others():
    english = [
        align.Block("p", text)
        for text in ("Short one.", "This paragraph is missing in the translation.", "See RFC 2616.")
    ]
    german = [align.Block("p", text) for text in ("Kurz ist es.", "Siehe RFC 2616.")]
    assert align.pairs(english, german) == [("Short one.", "Kurz ist es."), ("See RFC 2616.", "Siehe RFC 2616.")]


def test_a_manual_page_is_read_without_its_markup(tmp_path):
    page = ".TH LS 1\n.SH {}\nls \\- {} \\fB{}\\fR {}\n.PP\n{}\n.B \\-a\n{}\n"
    english, german = tmp_path / "ls.1.gz", tmp_path / "ls.de.1.gz"
    texts = {
        english: ("NAME", "list", "directory", "contents", "Use", "to show all."),
        german: ("BEZEICHNUNG", "Inhalte", "auflisten", "lassen", "Mit", "wird alles gezeigt."),
    }
    for path, words in texts.items():
        path.write_bytes(gzip.compress(page.format(*words).encode()))
    assert list(readers.manual_page(english, german)) == [
        ("NAME", "BEZEICHNUNG"),
        ("ls - list directory contents", "ls - Inhalte auflisten lassen"),
        ("Use -a to show all.", "Mit -a wird alles gezeigt."),
    ]


def test_a_catalogue_gives_its_last_plural_form_and_no_header(tmp_path):
    source, compiled = tmp_path / "de.po", tmp_path / "de.mo"
    source.write_text(
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\nPlural-Forms: nplurals=2; plural=n != 1;\\n"\n\n'
        'msgid "_Open"\nmsgstr "Ö_ffnen"\n\n'
        'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "%d Datei"\nmsgstr[1] "%d Dateien"\n',
        encoding="utf-8",
    )
    if subprocess.run(["which", "msgfmt"], capture_output=True).returncode:
        pytest.skip("msgfmt (Debian's package gettext) is not installed")
    subprocess.run(["msgfmt", "-o", compiled, source], check=True)
    found = dict(readers.catalogue(compiled))
    assert found["_Open"] == "Ö_ffnen"
    assert "%d Dateien" in found.values()
    assert "%d Datei" not in found.values()


def test_entries_of_the_dictionary_keep_their_variants(tmp_path):
    dictionary = tmp_path / "de-en"
    dictionary.write_text(
        "# comment\nHaus {n}; Gebäude {n} | Häuser {pl} :: house; building | houses\n", encoding="utf-8"
    )
    assert list(readers.ding(dictionary)) == [("house", "Haus"), ("building", "Gebäude"), ("houses", "Häuser")]


@pytest.mark.parametrize(
    ("english", "german", "accepted"),
    [
        ("Open the file and read it", "Öffnen Sie die Datei und lesen Sie sie", True),
        ("Open the file", "Open the file", False),
        ("x = 3 + 4 / (5 - 6)", "x = 3 + 4 / (5 - 6) ;", False),
        ("A long English sentence that says a lot of things", "Kurz", False),
    ],
)
def test_only_translations_are_kept(english, german, accepted):
    assert pairs.is_translation(english, german) is accepted


def test_labels_lose_their_shortcuts_and_texts_their_placeholders():
    assert pairs.clean("_Datei öffnen ...", label=True) == "Datei öffnen"
    assert pairs.clean("<b>%d</b> Dateien in {0}", label=False) == "Dateien in"


@pytest.mark.parametrize(
    ("text", "weak"),
    [
        ("Format: x\n\nFiles: *\nLicense: MIT\n", True),
        ("Format: x\n\nFiles: *\nLicense: LGPL-2.1+\n\nFiles: po/*\nLicense: GPL-3\n", False),
        ("Format: x\n\nFiles: *\nLicense: GPL-2+ or MPL-1.1\n", True),
        ("Everything here is under the GPL.", False),
    ],
)
def test_a_package_counts_as_weak_only_if_its_translations_are(tmp_path, text, weak):
    path = tmp_path / "copyright"
    path.write_text(text, encoding="utf-8")
    assert licences.is_weak(path) is weak


def test_verses_are_paired_by_number_and_the_heading_of_a_psalm_is_skipped(tmp_path):
    verse = "<VERS vnumber='{}'>{}</VERS>"
    texts = dict.fromkeys(readers.BOOKS, "")
    texts["1Mo"] = (
        "<CHAPTER cnumber='1'>" + verse.format(1, "Am Anfang") + verse.format(2, "Und die Erde") + "</CHAPTER>"
    )
    texts["2Mo"] = "<CHAPTER cnumber='1'>" + verse.format(1, "Dies sind") + "</CHAPTER>"
    texts["Ps"] = (
        "<CHAPTER cnumber='3'>" + verse.format(1, "Ein Psalm Davids") + verse.format(2, "Ach HERR") + "</CHAPTER>"
    )
    for book, text in texts.items():
        (tmp_path / f"{book}.xml").write_text(
            f"<XMLBIBLE><BIBLEBOOK>{text}</BIBLEBOOK></XMLBIBLE>", encoding="utf-8-sig"
        )
    english = tmp_path / "plain_text_bible.py"
    english.write_text(
        'bible = Bible(Version.X, """1. In the beginning 2. And the earth 1. Now these 2. And all 1. LORD, how""", '
        "{1001001: 0, 1001002: 20, 2001001: 37, 2001002: 50, 19003001: 61})"
    )
    assert list(readers.bible(english, tmp_path)) == [
        ("In the beginning", "Am Anfang"),
        ("And the earth", "Und die Erde"),
        ("LORD, how", "Ach HERR"),
    ]


def test_nested_messages_are_paired_by_key(tmp_path):
    english, german = tmp_path / "en.json", tmp_path / "de.json"
    english.write_text('{"en": {"door": {"open": "Is the door open?"}, "only": "English only"}}', encoding="utf-8")
    german.write_text('{"de": {"door": {"open": "Ist die Tür offen?"}}}', encoding="utf-8")
    assert list(readers.messages(english, german)) == [("Is the door open?", "Ist die Tür offen?")]


def test_dialogues_hold_both_languages(tmp_path):
    script = tmp_path / "dialogs_de.lua"
    script.write_text('dialogId("a-b", "font", "Welcome, \\"friend\\".")\ndialogStr("Willkommen, \\"Freund\\".")\n')
    assert list(readers.dialogues(script)) == [('Welcome, "friend".', 'Willkommen, "Freund".')]


def test_weights_survive_packing_within_a_step_of_their_row(tmp_path):
    draw = np.random.default_rng(1)
    tensors = {
        weights.WORDS: draw.normal(size=(5, 8)).astype(np.float32),
        "layer.weight": draw.normal(size=(4, 8)).astype(np.float32),
        "layer.bias": draw.normal(size=8).astype(np.float32),
    }
    packed = tmp_path / "teacher.npz.xz"
    with lzma.open(packed, "wb") as file:
        weights.write(tensors, file, levels=1_023)
    found = weights.read(packed)
    assert found.keys() == tensors.keys()
    for name, levels in ((weights.WORDS, 127), ("layer.weight", 1_023)):
        step = np.abs(tensors[name]).max(axis=1, keepdims=True) / levels
        assert (np.abs(found[name] - tensors[name]) <= 0.51 * step).all()
    assert (found["layer.bias"] == tensors["layer.bias"]).all()
