"""Train the language detection: write src/fourfold/text/languages.bin.

    python training/languages.py TATOEBA SNOWBALL [OUT]

TATOEBA: a checkout of github.com/Helsinki-NLP/Tatoeba-Challenge, of which only the development and test sets are read
(CC BY 2.0 FR, sentences of tatoeba.org). SNOWBALL: a checkout of github.com/snowballstem/snowball-data (BSD), whose
word lists teach words that sentences lack. English also gets lines of Python's standard library, because notes contain
code. Needs torch; takes about ten minutes on two cores.

The model is a logistic regression. Its features are those of `native/languages.c`: every part of 1 to 4 characters of
a word, with a space before and after the word, and the whole word, hashed into 2^16 rows. It learns from spans of 1 to
30 words, some of which have English nouns between function words ("Meeting mit Anna"), accents left out, or umlauts
written with two letters. English and German have more examples than other languages, which makes them more likely where
a text says nothing; languages beyond the twenty that are supported best have fewer.
"""

from __future__ import annotations

import gzip
import random
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from zlib import crc32

import numpy as np
import torch

BITS = 16
UNITS_PER_NAT = 32
PART_CHARACTERS = 4
EXAMPLES = 15_000  # of a language, times its share
MOST_REPEATS = 20  # a sentence is used at most this often
HELD_BACK = 200  # sentences of each language
BATCH = 512
PASSES = 2
RATE = 0.25
SEPARATOR = re.compile("[\x00-`{-\x7f\u0080-\u00bf\u2000-\u207f\u3000-\u303f]+")
LENGTHS = (1, 2, 2, 3, 3, 4, 6, 10, 30)  # of spans, in words
LIST_LENGTHS = (1, 2, 2, 3, 4)  # of examples made of words of a list

LANGUAGES = {
    "en": "eng english", "de": "deu german", "fr": "fra french", "es": "spa spanish", "it": "ita italian",
    "pt": "por portuguese", "nl": "nld dutch", "pl": "pol polish", "ru": "rus russian", "sv": "swe swedish",
    "da": "dan danish", "nb": "nob norwegian", "cs": "ces czech", "ro": "ron romanian", "uk": "ukr",
    "tr": "tur turkish", "hu": "hun hungarian", "fi": "fin finnish", "el": "ell greek", "ca": "cat catalan",
    "ar": "ara", "fa": "pes fas persian", "he": "heb", "yi": "yid yiddish", "hi": "hin hindi", "ne": "nep npi nepali",
    "ta": "tam", "hy": "hye armenian", "id": "ind indonesian", "et": "est estonian", "eu": "eus basque",
    "ga": "gle irish", "lt": "lit lithuanian", "lv": "lav", "eo": "epo esperanto", "sr": "srp_Cyrl srp_Latn serbian",
    "hr": "hrv", "sl": "slv", "sk": "slk", "bg": "bul", "vi": "vie", "ja": "jpn jpn_Hira jpn_Hani jpn_Kana",
    "ko": "kor kor_Hang", "zh": "cmn_Hans cmn_Hant", "th": "tha", "ka": "kat", "bn": "ben", "ur": "urd",
}  # fmt: skip
"""The codes of each language in Tatoeba, and its folder in Snowball."""
SHARES = {"en": 10.0, "de": 8.0, **dict.fromkeys(list(LANGUAGES)[2:20], 1.0)}
RARE_SHARE = 0.3
LEADS_NATS = {"en": 1.0, "de": 1.0, **dict.fromkeys(list(LANGUAGES)[20:], -2.0)}
"""Added to the priors: what users write is less evenly spread than the examples."""
MIXED_SHARE = 0.15
FUNCTION_WORDS = 100  # the most frequent words of a language

Example = tuple[list[str], int]


def main() -> None:
    """Train, print how many held-back spans are right, and write the file."""
    tatoeba, snowball, *rest = map(Path, sys.argv[1:])
    out = rest[0] if rest else Path(__file__).parents[1] / "src/fourfold/text/languages.bin"
    chance = random.Random(1)
    learned, held_back = examples(sentences(tatoeba), snowball, chance)
    chance.shuffle(learned)
    weights, priors = trained(learned)
    priors += [LEADS_NATS.get(language, 0.0) for language in LANGUAGES]
    table, row = (np.clip(np.rint(each * UNITS_PER_NAT), -127, 127).astype(np.int8) for each in (weights, priors))
    body = row.tobytes() + table.tobytes()
    out.write_bytes(f"{crc32(body):08x} {' '.join(LANGUAGES)}\n".encode() + body)
    right = [(table[features(words)].sum(0, dtype=int) + row).argmax() == number for words, number in held_back]
    print(f"{len(learned)} examples; {np.mean(right):.3f} of {len(right)} held-back spans are right")


def sentences(tatoeba: Path) -> dict[str, list[str]]:
    """The sentences of each language code, in a fixed order."""
    found: dict[str, set[str]] = defaultdict(set)
    for folder in ("dev", "test", "devtest", "release/dev", "release/test"):
        for path in (tatoeba / "data" / folder).rglob("*[vt]*.txt*"):
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            for line in data.decode("utf-8", "replace").split("\n"):
                if len(columns := line.split("\t")) == 4:
                    found[columns[0]].add(columns[2])
                    found[columns[1]].add(columns[3])
    return {code: sorted(texts) for code, texts in found.items()}


def examples(texts: dict[str, list[str]], snowball: Path, chance: random.Random) -> tuple[list[Example], list[Example]]:
    """Examples to learn from, and spans of sentences that are held back."""
    learned: list[Example] = []
    held_back: list[Example] = []
    english = word_list(snowball / "english" / "voc.txt")
    for number, (language, names) in enumerate(LANGUAGES.items()):
        own = [text for name in names.split() for text in texts.get(name, [])]
        chance.shuffle(own)
        held_back += [(span(text, chance), number) for text in own[:HELD_BACK]]
        own = own[HELD_BACK:]
        count = int(EXAMPLES * SHARES.get(language, RARE_SHARE))
        spans = [span(own[i % len(own)], chance) for i in range(min(count, MOST_REPEATS * len(own)))]
        if language != "en":
            counts = Counter(word for words in spans for word in words)
            common = {word for word, _ in counts.most_common(FUNCTION_WORDS)}
            spans = [
                mixed(words, common, english, chance) if chance.random() < MIXED_SHARE else words for words in spans
            ]
        else:
            spans += [span(line, chance) for line in chance.sample(code(), EXAMPLES // 2)]
        if listed := word_list(snowball / names.split()[-1] / "voc.txt"):
            spans += [chance.choices(listed, k=chance.choice(LIST_LENGTHS)) for _ in range(int(0.6 * count))]
        learned += [(plainer(words, language) if chance.random() < 0.1 else words, number) for words in spans if words]
    return learned, [example for example in held_back if example[0]]


def span(text: str, chance: random.Random) -> list[str]:
    """A few adjacent words."""
    words = [word for word in SEPARATOR.split(text.lower()) if word]
    length = chance.choice(LENGTHS)
    start = chance.randint(0, max(0, len(words) - length))
    return words[start : start + length]


def mixed(words: list[str], common: set[str], english: Sequence[str], chance: random.Random) -> list[str]:
    """The words with English ones in place of those that are not common; unchanged if none is common."""
    if common.isdisjoint(words):
        return words
    return [word if word in common or chance.random() < 0.3 else chance.choice(english) for word in words]


def code() -> list[str]:
    """Lines of Python's standard library."""
    files = sorted(Path(random.__file__).parent.glob("*.py"))
    lines = [line.strip() for path in files for line in path.read_text("utf-8", "replace").splitlines()]
    return [line for line in lines if len(line) > 12]


def word_list(path: Path) -> list[str]:
    words = path.read_text("utf-8", "replace").split() if path.is_file() else []
    return [word for word in words if len(word) > 2 and not SEPARATOR.search(word)]


def plainer(words: Sequence[str], language: str) -> list[str]:
    """Words as many people type them: umlauts with two letters, no accents."""
    if language == "de":
        umlauts = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})
        return [word.translate(umlauts) for word in words]
    return [re.sub("(?<=[a-z\u0370-\u03ff])[\u0300-\u036f]", "", unicodedata.normalize("NFD", word)) for word in words]


def features(words: Sequence[str]) -> np.ndarray:
    return np.concatenate([_of_word(word) for word in words])


@cache
def _of_word(word: str) -> np.ndarray:
    return np.fromiter(_rows(f" {word} "), np.int32)


def _rows(spaced: str) -> Iterator[int]:
    """The row of each part of a word between two spaces, and of the whole word."""
    for start in range(len(spaced) - 1):
        parts = range(start + 1, min(start + PART_CHARACTERS, len(spaced)) + 1)
        yield from (_row(spaced[start:end]) for end in parts if spaced[start:end] != " ")
    if len(spaced) > PART_CHARACTERS:
        yield _row(spaced)


@cache
def _row(part: str) -> int:
    """FNV-1a, folded."""
    found = 0x811C9DC5
    for byte in part.encode("utf-8", "replace"):
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    return (found ^ found >> 16) & ((1 << BITS) - 1)


def trained(learned: Sequence[Example]) -> tuple[np.ndarray, np.ndarray]:
    """The weights of each row and the priors, after some passes over the examples."""
    torch.manual_seed(1)
    weights = torch.nn.EmbeddingBag(1 << BITS, len(LANGUAGES), mode="sum", sparse=True)
    torch.nn.init.zeros_(weights.weight)
    priors = torch.zeros(len(LANGUAGES), requires_grad=True)
    optimizer = torch.optim.Adagrad([weights.weight, priors], lr=RATE)
    steps = PASSES * len(learned) // BATCH
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1 - step / steps) + RATE / 100
        start = step * BATCH % (len(learned) - BATCH)
        batch = learned[start : start + BATCH]
        rows = [features(words) for words, _ in batch]
        starts = np.cumsum([0, *map(len, rows[:-1])])
        scores = weights(torch.from_numpy(np.concatenate(rows)).long(), torch.from_numpy(starts)) + priors
        loss = torch.nn.functional.cross_entropy(scores, torch.tensor([number for _, number in batch]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 200 == 0:
            print(f"step {step} of {steps}: loss {loss.item():.3f}", flush=True)
    found = weights.weight.detach().numpy()
    return found - found.mean(1, keepdims=True), priors.detach().numpy()


if __name__ == "__main__":
    main()
