"""The arrays of an index live as long as what scores by them."""

from __future__ import annotations

import gc
from weakref import ref

import numpy as np

from fourfold.index.rows import Documents, append
from fourfold.native.bindings import QueryColumns, Scorer


def test_a_scorer_keeps_the_columns_of_an_index_that_was_replaced() -> None:
    documents = append(Documents.empty(), [7], [3], [np.array([1, 2, 3], np.uint32)])
    words = QueryColumns([1], [1.0], [0], [0, 1], [1.0])
    scorer = Scorer.by_words((documents.part, Documents.empty().part), words, 1.0, 3.0, (1.2, 0.75, 50.0))
    columns = [ref(documents.ids), ref(documents.terms), ref(documents.ends)]
    del documents
    gc.collect()
    assert all(column() is not None for column in columns)
    found = scorer.best(np.array([0]), np.empty(0, np.int64), 1)
    assert found.ids.tolist() == [7]
