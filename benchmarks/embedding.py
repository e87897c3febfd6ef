"""What making vectors costs beside the bare ONNX session: the same model, the same tokens, in its best batches.

python benchmarks/embedding.py --texts 2000
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from corpus import Corpus
from report import Bar, bars_table
from setting import Setting, in_process, options_parser, setting_of

BAR = 1.1
BATCH_TOKENS = (256, 512, 1024, 2048, 4096)
SPINNING_TOKENS = (512, 2048)
TEXTS = 500
ROUNDS = 3


def embedding_bars(setting: Setting, texts: int = TEXTS) -> list[Bar]:
    """The embedder, and the queue that stores what it makes, beside the best bare session."""
    bare, ours, queue, settings = in_process(measured, setting.corpus, texts)
    note = f"{texts / bare:.0f} texts/s bare ({settings})"
    return [
        Bar("embedder / bare ONNX session", ours / bare, BAR, note=f"{texts / ours:.0f}, {note}"),
        Bar("queue with store / bare ONNX session", queue / bare, BAR, note=f"{texts / queue:.0f}, {note}"),
    ]


def measured(corpus: Corpus, count: int) -> tuple[float, float, float, str]:
    """Seconds of the best bare session, of the embedder and of the queue, the best of some rounds each, in turns."""
    from fourfold.embed.builtin import PASSAGE_PREFIX, built_in_model, recipe

    texts = [f"{item.title}\n{item.text}" for item in islice(corpus.items(), count)]
    tokens = tokenised(recipe(), [PASSAGE_PREFIX + text for text in texts])
    embedder = built_in_model()
    embedder.load()
    candidates = {name: bare_run(recipe(), tokens, **choice) for name, choice in choices().items()}
    first = {name: seconds(run) for name, run in candidates.items()}
    best = min(first, key=first.__getitem__)
    print("bare session, s: " + ", ".join(f"{name} {spent:.1f}" for name, spent in first.items()), flush=True)
    rounds = [
        (seconds(candidates[best]), seconds(lambda: embedder.embed(texts)), queue_seconds(texts)) for _ in range(ROUNDS)
    ]
    bare, ours, queue = (min(column) for column in zip(*rounds, strict=True))
    return min(bare, first[best]), ours, queue, best


def seconds(work: Callable[[], Any]) -> float:
    """How long a call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


# ---------------------------------------------------------------- the bare session


def tokenised(recipe: Any, texts: Sequence[str]) -> list[list[int]]:
    """Token ids, shortest first: made in advance."""
    return sorted(recipe.tokenizer.encode(texts), key=len)


def choices() -> dict[str, dict[str, Any]]:
    """The settings that are tried: tokens of a batch, and for some whether threads spin while they wait."""
    tried = [(tokens, False) for tokens in BATCH_TOKENS] + [(tokens, True) for tokens in SPINNING_TOKENS]
    return {
        f"{tokens} tokens a batch, {'spinning' if spin else 'sleeping'}": {"batch_tokens": tokens, "spin": spin}
        for tokens, spin in tried
    }


def bare_run(recipe: Any, rows: list[list[int]], batch_tokens: int, spin: bool) -> Callable[[], None]:
    """A call that runs all batches, each of rows of one length, through a session of its own."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spin)))
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(recipe.folder))
    session = onnxruntime.InferenceSession(recipe.model, options, providers=["CPUExecutionProvider"])
    (name,) = (node.name for node in session.get_inputs())
    feeds = [{name: np.array(batch, np.int64)} for batch in cut(rows, batch_tokens)]

    def run() -> None:
        for feed in feeds:
            session.run(None, feed)

    return run


def cut(rows: list[list[int]], batch_tokens: int) -> Iterator[list[list[int]]]:
    """Batches of rows of one length, of at most this many tokens."""
    batch: list[list[int]] = []
    for row in rows:
        if batch and (len(row) != len(batch[0]) or len(row) * (len(batch) + 1) > batch_tokens):
            yield batch
            batch = []
        batch.append(row)
    yield batch


# ---------------------------------------------------------------- the queue


def queue_seconds(texts: Sequence[str]) -> float:
    """Seconds until all of a new store's items have their vectors, which are stored."""
    from fourfold import Memory, NewItem, Settings

    with tempfile.TemporaryDirectory() as folder:
        plain = Settings(links=False)
        with Memory.open(Path(folder), embedder="none", settings=plain, background=False) as memory:
            memory.add_many([NewItem(text) for text in texts])
        with Memory.open(Path(folder), embedder="builtin", settings=plain, background=False) as memory:
            memory.search("load the model")
            begin = time.perf_counter()
            memory.embed_pending()
            return time.perf_counter() - begin


def main() -> None:
    """Print the table."""
    parser = options_parser(__doc__)
    parser.set_defaults(items=10_000)
    parser.add_argument("--texts", type=int, default=TEXTS, help="how many texts to embed")
    options = parser.parse_args()
    print(bars_table(embedding_bars(setting_of(options), options.texts)))


if __name__ == "__main__":
    main()
