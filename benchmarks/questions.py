"""Search queries made from the corpus: short ones of words and long ones that read like questions."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass

WORD = re.compile(r"[A-Za-z]{4,14}")
TOKEN = re.compile(r"[A-Za-z0-9]+")
NAMED_IN_TEN = 3
SHORT_WORDS = (1, 3)
LONG_WORDS = (6, 15)
RAREST_WORD = 3
COMMONEST_SHARE = 0.05
OPENINGS = ("how do i", "what is the", "why does the", "where can i find", "when should the", "which", "is there a")
JOINTS = ("with", "and the", "for", "in", "from")


@dataclass(frozen=True, slots=True)
class Query:
    """One query text; `named` is the title of the graph node it names, or empty."""

    text: str
    named: str

    def row(self) -> list[str]:
        """Return the query as a list for JSON."""
        return [self.text, self.named]


class QueryMaker:
    """Draws queries from titles and texts in a repeatable way."""

    def __init__(self, documents: list[tuple[str, str]], seed: int) -> None:
        self._documents = documents
        self._random = random.Random(seed)
        counts = Counter(word for _, text in documents for word in set(WORD.findall(text.lower())))
        limit = max(COMMONEST_SHARE * len(documents), RAREST_WORD + 1)
        self._content = {word for word, count in counts.items() if RAREST_WORD <= count <= limit}

    def draw(self, long: bool, names_node: bool) -> Query:
        """Draw one query of the given kind."""
        named = self._random.choice(self._documents)[0] if names_node else ""
        text = self._question(named) if long else self._words(named)
        return Query(text, named)

    def _words(self, named: str) -> str:
        """Return one to three content words, or the title of the named node."""
        if named:
            return named
        _, text = self._random.choice(self._documents)
        content = sorted(set(WORD.findall(text.lower())) & self._content)
        return " ".join(self._random.sample(content, min(len(content), self._random.randint(*SHORT_WORDS))))

    def _question(self, named: str) -> str:
        """Return a question with a phrase of some passage in it, and the named node's title."""
        opening = self._random.choice(OPENINGS).split()
        about = [*named.split(), *self._random.choice(JOINTS).split()] if named else []
        used = len(opening) + len(about)
        length = self._random.randint(max(LONG_WORDS[0], used + 2), LONG_WORDS[1])
        return " ".join([*opening, *about, *self._phrase(length - used)])

    def _phrase(self, length: int) -> list[str]:
        """Return consecutive words of a random passage."""
        _, text = self._random.choice(self._documents)
        tokens = TOKEN.findall(text.lower())
        start = self._random.randrange(max(1, len(tokens) - length))
        return tokens[start : start + length]


def make_queries(documents: list[tuple[str, str]], count: int, seed: int) -> list[Query]:
    """Make distinct queries, half of them short, three in ten naming a node, in random order."""
    maker = QueryMaker(documents, seed)
    made: dict[str, Query] = {}
    while len(made) < count:
        number = len(made)
        query = maker.draw(long=number % 2 == 1, names_node=number // 2 % 10 < NAMED_IN_TEN)
        if query.text:
            made.setdefault(query.text, query)
    queries = list(made.values())
    random.Random(seed).shuffle(queries)
    return queries
