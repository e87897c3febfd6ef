"""The statistical model of languages: the weights of py3langid, evaluated in C."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from fourfold.native.text import Automaton


class LanguageModel:
    """Naive Bayes over byte sequences, restricted to some languages. Loading takes 0.5 s."""

    def __init__(self, languages: Sequence[str]) -> None:
        langid: Any = import_module("py3langid.langid")
        model = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
        model.set_languages(languages)
        moves, rows = (np.asarray(states, np.uint32) for states in (model.tk_nextmove, model.tk_row))
        self._automaton = Automaton(moves, rows, np.array(model.tk_output, np.int32))
        self._languages: list[str] = model.nb_classes
        self._weights, self._priors = model.nb_ptc.astype(np.float32), model.nb_pc
        firsts = [self._languages.index(language) for language in self._languages]
        self._aliases = [(first, place) for place, first in enumerate(firsts) if first != place]
        """Classes of one language, such as Serbian in two scripts."""

    def classify(self, text: str) -> tuple[str, float]:
        """Return the language of a text and its probability, as py3langid does."""
        spelled = text.lower() if text.isupper() else text
        data = unicodedata.normalize("NFC", spelled).encode("utf-8", "surrogatepass")
        features, counts = self._automaton.features(data)
        scores = np.zeros(len(self._languages), np.float32)
        if len(features):
            scores = np.log1p(counts) @ self._weights[features] + self._priors
        scores *= 1.0 / math.sqrt(len(data) or 1)
        np.exp(scores - scores.max(), out=scores)
        scores /= scores.sum()
        for first, other in self._aliases:
            scores[first] += scores[other]
            scores[other] = 0.0
        best = int(scores.argmax())
        return self._languages[best], float(scores[best])
