"""Analysis on real German and English text: read from ../shared/data, skipped if that folder is missing."""

import json
import tarfile
from collections import Counter
from functools import cache
from math import log2
from pathlib import Path

import pytest

from fourfold.text.analysis import analyse_item, query_words
from fourfold.text.bm25 import idf, saturation
from fourfold.text.compounds import SortedLexicon, with_relatives
from fourfold.text.language import detect

DATA = Path(__file__).parents[3] / "shared" / "data"

pytestmark = [
    pytest.mark.spec("S1.9"),
    pytest.mark.skipif(not DATA.is_dir(), reason=f"test collections are not at {DATA}"),
]


@cache
def collection(name):
    """Documents and queries by id, and the relevant documents of each query."""
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        lines = {kind: archive.extractfile(f"{name}/{kind}").read().decode().splitlines() for kind in FILES}
    documents = {row["_id"]: (row["title"], row["text"]) for row in map(json.loads, lines["corpus.jsonl"])}
    queries = {row["_id"]: row["text"] for row in map(json.loads, lines["queries.jsonl"])}
    relevant = {}
    for line in lines["qrels.tsv"][1:]:
        query, document, _ = line.split("\t")
        relevant.setdefault(query, set()).add(document)
    return documents, queries, relevant


FILES = ("corpus.jsonl", "queries.jsonl", "qrels.tsv")


@pytest.mark.parametrize(("name", "language"), [("xquad-de", "de"), ("xquad-en", "en"), ("covid-faq-de", "de")])
def test_the_language_is_detected(name, language):
    documents, queries, _ = collection(name)
    assert share(map(" ".join, documents.values()), language) >= 0.99
    assert share(queries.values(), language) >= 0.97


def share(texts, language):
    found = Counter(map(detect, texts))
    return found[language] / found.total()


@pytest.mark.parametrize(
    ("name", "language", "bar"), [("xquad-de", "de", 0.94), ("xquad-en", "en", 0.96), ("covid-faq-de", "de", 0.34)]
)
def test_questions_find_their_answers(name, language, bar):
    documents, queries, relevant = collection(name)
    ranker = Ranker(documents, language)
    scores = [ndcg(ranker.rank(queries[query])[:10], ids) for query, ids in relevant.items()]
    assert sum(scores) / len(scores) >= bar


def ndcg(ranked, relevant):
    gained = sum(1 / log2(place + 2) for place, document in enumerate(ranked) if document in relevant)
    return gained / sum(1 / log2(place + 2) for place in range(min(10, len(relevant))))


class Ranker:
    """BM25 as a store computes it."""

    def __init__(self, documents, language):
        self.language = language
        self.postings = {}
        self.lengths = {}
        for name, (title, text) in documents.items():
            terms = analyse_item(title, text, language)
            self.lengths[name] = len(terms)
            for term, count in Counter(terms).items():
                self.postings.setdefault(term, {})[name] = count
        self.average = sum(self.lengths.values()) / len(self.lengths)
        self.lexicon = SortedLexicon(self.postings)

    def rank(self, query):
        scores = Counter()
        for word in self.words(query):
            best = Counter()
            for term, weight in word.variants:
                found = self.postings.get(term, {})
                for name, count in found.items():
                    score = idf(len(found), len(self.lengths)) * saturation(count, self.lengths[name], self.average)
                    best[name] = max(best[name], weight * score)
            scores.update(best)
        return [name for name, _ in scores.most_common()]

    def words(self, query):
        found = query_words(query, [self.language])
        return [with_relatives(word, self.lexicon) for word in found] if self.language == "de" else found
