"""Local sentence models: texts in, unit vectors out. Nothing heavy is imported before a model loads."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from fourfold import threads
from fourfold.embed.base import readable
from fourfold.errors import EmbedderUnavailable, MissingExtra

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]
    Ints: TypeAlias = NDArray[np.int64]


# ---------------------------------------------------------------- files of a model


def package_folder(package: str, model: str, extra: str) -> Path:
    """The folder of an installed package that has the files of a model. Imports nothing."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingExtra(f"the model {model} is not installed", f"Install it: pip install 'fourfold[{extra}]'")
    return Path(spec.origin).parent


def content(file: Path, remedy: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise unreadable(file, error, remedy) from error


def checked(file: Path, sha256: str, remedy: str) -> bytes:
    """The content of a file if it is the pinned one: native code never sees another."""
    data = content(file, remedy)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise damaged(file, remedy)
    return data


def check(file: Path, sha256: str, remedy: str) -> None:
    """The same for a file that is too large to keep in memory."""
    if digest([file], remedy) != sha256:
        raise damaged(file, remedy)


def digest(files: Iterable[Path], remedy: str) -> str:
    """sha256 of the files, one after the other."""
    sha256 = hashlib.sha256()
    for file in files:
        try:
            with file.open("rb") as stream:
                hashlib.file_digest(stream, lambda: sha256)
        except OSError as error:
            raise unreadable(file, error, remedy) from error
    return sha256.hexdigest()


def damaged(file: Path, remedy: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(f"{file} is damaged, or of another version: its sha256 is not the expected one", remedy)


def unreadable(file: Path, error: OSError, remedy: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(f"{file} cannot be read ({error.strerror or error})", remedy)


# ---------------------------------------------------------------- onnxruntime


Pooling = Literal["mean", "cls", "max"]

CPU = "cpu"
"""The execution provider that every onnxruntime has."""

THREADS = 4
"""Most cores for one run: a sentence cannot use more."""

SLOW_FUSIONS = ["SkipLayerNormFusion"]
"""Makes a sum and the layer normalisation after it five times slower (onnxruntime 1.31)."""

PROVIDER_SUFFIX = "ExecutionProvider"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
DTYPES = {"tensor(int64)": "int64", "tensor(int32)": "int32"}
ERRORS = (
    *("EngineError", "EPFail", "Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf"),
    *("ModelLoaded", "NoModel", "NoSuchFile", "NotImplemented", "RuntimeException"),
)

REMEDY = (
    "Check that the tokenizer belongs to the model, or export it again:"
    " `optimum-cli export onnx --task feature-extraction --model NAME FOLDER`"
)


class Graph:
    """An open ONNX model from token ids to unit vectors. `run` may be called from several threads at once."""

    def __init__(self, model: bytes | Path, pooling: Pooling, provider: str = CPU, folder: Path | None = None) -> None:
        """`folder`: of weights that lie beside the model's bytes. Processes share the memory that maps them."""
        self._native = open_native(model, provider, folder=folder)
        self._inputs = dict(input_type(node) for node in self._native.get_inputs())
        self.pads = "attention_mask" in self._inputs
        """Whether rows of different lengths may run together."""
        self._output = best_output([node.name for node in self._native.get_outputs()])
        self._pooling: Pooling = pooling

    def run(self, rows: Sequence[list[int]]) -> Floats:
        """One unit vector per row of token ids."""
        ids, mask = padded(rows)
        with native_errors("run"):
            hidden = self._native.run([self._output], self._feeds(ids, mask))[0]
        return normalised(hidden if hidden.ndim == 2 else pooled(hidden, mask, self._pooling))

    def _feeds(self, ids: Ints, mask: Ints) -> dict[str, Any]:
        arrays: dict[str, Ints] = dict(zip(INPUTS, (ids, mask, ids * 0), strict=True))
        return {name: arrays[name].astype(dtype, copy=False) for name, dtype in self._inputs.items()}


def open_native(model: bytes | Path, provider: str = CPU, remedy: str = REMEDY, folder: Path | None = None) -> Any:
    """Opens a model for an execution provider; what that one cannot compute runs on the CPU."""
    native = import_native()
    source = model if isinstance(model, bytes) else str(model)
    wanted = available_provider(native, provider)
    providers = list(dict.fromkeys((wanted, full_name(CPU))))
    with native_errors("open", remedy):
        session = native.InferenceSession(
            source, session_options(native, folder), providers=providers, disabled_optimizers=SLOW_FUSIONS
        )
    if wanted not in session.get_providers():  # onnxruntime falls back to the CPU, for example without CUDA's libraries
        message = f"onnxruntime cannot start the execution provider {provider}, as its log says"
        raise EmbedderUnavailable(message, "Install what the provider needs, or set onnx_provider to cpu")
    return session


def available_provider(native: Any, provider: str) -> str:
    """The full name of an execution provider: `cuda` and `CUDAExecutionProvider` are the same."""
    names: list[str] = native.get_available_providers()
    for name in names:
        if name.casefold() in (provider.casefold(), full_name(provider).casefold()):
            return name
    choices = ", ".join(name.removesuffix(PROVIDER_SUFFIX).lower() for name in names)
    message = f"onnxruntime {native.__version__} has no execution provider {provider!r}"
    raise EmbedderUnavailable(message, f"Set onnx_provider to one of {choices}, or install the onnxruntime that has it")


def full_name(provider: str) -> str:
    return f"{provider.upper()}{PROVIDER_SUFFIX}"


def import_native() -> Any:
    """onnxruntime, which would otherwise send data about its use to Microsoft from its import on."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        import onnxruntime
    except ImportError as error:
        message = f"onnxruntime, which runs models, cannot be imported ({error})"
        raise EmbedderUnavailable(message, "Run `pip install --force-reinstall onnxruntime`") from error
    onnxruntime.disable_telemetry_events()  # of builds for Windows apps, which ignore the variable
    return onnxruntime


@contextmanager
def native_errors(action: str, remedy: str = REMEDY) -> Generator[None]:
    """Turns onnxruntime's exceptions, which share no base of their own, into ours."""
    state = import_native().capi.onnxruntime_pybind11_state
    errors = tuple(getattr(state, name) for name in ERRORS if hasattr(state, name))
    try:
        yield
    except errors as error:
        raise EmbedderUnavailable(f"onnxruntime cannot {action} the model ({error})", remedy) from error


def session_options(native: Any, folder: Path | None = None) -> Any:
    """Threads that sleep while they wait: the other retrievers need the cores. Spinning would make a long text faster
    by a tenth; runs side by side gain twice that, and use less of the cores."""
    options = native.SessionOptions()
    options.intra_op_num_threads = thread_count()
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    return options


def thread_count() -> int:
    """Of one run."""
    return min(THREADS, usable_cores())


def usable_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def input_type(node: Any) -> tuple[str, str]:
    if node.name not in INPUTS or node.type not in DTYPES:
        raise EmbedderUnavailable(f"the model asks for `{node.name}` ({node.type}), not for token ids only", REMEDY)
    return node.name, DTYPES[node.type]


def best_output(names: Sequence[str]) -> str:
    """The pooled sentence where the export has it, else the hidden states of the tokens."""
    return "sentence_embedding" if "sentence_embedding" in names else names[0]


def padded(rows: Sequence[list[int]]) -> tuple[Ints, Ints]:
    """Token ids and attention mask."""
    import numpy as np

    shape = (len(rows), max(map(len, rows)))
    ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = row
        mask[index, : len(row)] = 1
    return ids, mask


def pooled(hidden: Floats, mask: Ints, pooling: Pooling) -> Floats:
    """One vector per text; for `mean` the sum, which has the mean's direction."""
    import numpy as np

    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "max":
        return np.where(mask[:, :, None] == 1, hidden, -np.inf).max(axis=1)
    return np.einsum("bth,bt->bh", hidden, mask.astype(np.float32))


def normalised(vectors: Floats) -> Floats:
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise EmbedderUnavailable("the embedding model gave a vector that is zero or not finite", REMEDY)
    return (vectors / lengths).astype(np.float32, copy=False)


# ---------------------------------------------------------------- sessions


BATCH_TOKENS = 512
"""Tokens of one run, padding included: fewer make each token dearer; more only need more memory."""

TEXTS_AT_ONCE = 1024
"""Texts tokenised together: bounds the memory of an `embed` of any size."""

CHARACTERS_A_TOKEN = 64
"""A text is cut to this many characters per token before it is tokenised, which bounds the cost of a long text."""

NO_TOKENS = [0]
"""Ids of a text without any token, so that every text has a vector."""


class Tokenizer(Protocol):
    """Turns texts into ids of a model's vocabulary. Safe to use from several threads at once."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, cut to what the model reads."""
        ...

    def truncates(self, text: str) -> bool:
        """Whether `encode` cuts the text."""
        ...


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that turns texts into vectors."""

    model: bytes | Path
    """Bytes where they were checked, so that native code sees exactly what was hashed."""
    tokenizer: Tokenizer
    max_tokens: int
    pooling: Pooling
    query_prefix: str = ""
    passage_prefix: str = ""
    """What the model wants before a query, and before a stored text."""
    folder: Path | None = None
    """Of weights that lie beside the model's bytes."""
    ready: Callable[[], None] = lambda: None
    """Waits until those weights are checked; raises EmbedderUnavailable if they are damaged."""


class LocalModel(Protocol):
    """A loaded model: unit vectors of texts to store and of queries, whether it cuts a text. Threads may share it."""

    dimension: int

    def embed(self, texts: Sequence[str]) -> Floats: ...
    def embed_queries(self, texts: Sequence[str]) -> Floats: ...
    def truncates(self, text: str) -> bool: ...


class Session:
    """A LocalModel that onnxruntime runs."""

    def __init__(self, recipe: Recipe, provider: str = CPU) -> None:
        """`provider`: the execution provider of onnxruntime."""
        self._query_prefix = recipe.query_prefix
        self._passage_prefix = recipe.passage_prefix
        self._tokenizer = recipe.tokenizer
        self._characters = recipe.max_tokens * CHARACTERS_A_TOKEN
        try:
            self._graph = Graph(recipe.model, recipe.pooling, provider, recipe.folder)
        finally:
            recipe.ready()
        self.dimension = self._embed_slice(["a"]).shape[1]

    def embed(self, texts: Sequence[str]) -> Floats:
        return self._embed([self._passage_prefix + text for text in texts])

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        return self._embed([self._query_prefix + text for text in texts])

    def truncates(self, text: str) -> bool:
        text = self._passage_prefix + text
        return len(text) > self._characters or self._tokenizer.truncates(self._readable(text))

    def _embed(self, texts: Sequence[str]) -> Floats:
        import numpy as np

        result = np.empty((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            end = start + TEXTS_AT_ONCE
            result[start:end] = self._embed_slice(texts[start:end])
        return result

    def _embed_slice(self, texts: Sequence[str]) -> Floats:
        import numpy as np

        rows = [ids or NO_TOKENS for ids in self._tokenizer.encode([self._readable(text) for text in texts])]
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        made = batches([rows[index] for index in order], pads=self._graph.pads)
        vectors = np.concatenate(self._runs(list(made)))
        result = np.empty_like(vectors)
        result[order] = vectors
        return result

    def _runs(self, made: Sequence[list[list[int]]]) -> list[Floats]:
        """The vectors of every batch. Two run at a time: while the threads of one wait, the other computes."""
        if len(made) == 1 or thread_count() == 1:
            return [self._graph.run(batch) for batch in made]
        vectors: dict[int, Floats] = {}
        left = iter(enumerate(made))

        def work() -> None:
            for place, batch in left:
                vectors[place] = self._graph.run(batch)

        second = threads.start(work, "fourfold-model")
        try:
            work()
        finally:
            deque(left, maxlen=0)  # after an error or Ctrl-C the other thread ends with its batch
        second.result()
        return [vectors[place] for place in range(len(made))]

    def _readable(self, text: str) -> str:
        return readable(text, self._characters)


def batches(rows: Sequence[list[int]], *, pads: bool = True) -> Iterator[list[list[int]]]:
    """Rows, shortest first, in runs of at most BATCH_TOKENS when padded to their longest (and of at least one row).

    Without padding, the rows of a run have one length.
    """
    batch: list[list[int]] = []
    for row in rows:
        if batch and (len(row) * (len(batch) + 1) > BATCH_TOKENS or not (pads or len(row) == len(batch[0]))):
            yield batch
            batch = []
        batch.append(row)
    yield batch


class LocalEmbedder:
    """The Embedder over a local model: hashes and loads once, on first use."""

    def __init__(
        self,
        fingerprint: Callable[[], str],
        model: Callable[[], LocalModel],
        dimension: int | None = None,
        replaces: tuple[str, ...] = (),
    ) -> None:
        """`model` loads it. `replaces`: see `replaced` in base.py."""
        self.replaces = replaces
        self._make_fingerprint = fingerprint
        self._load = model
        self._dimension = dimension
        self._fingerprint = ""
        self._model: LocalModel | None = None
        self._loading = threading.Lock()

    @property
    def fingerprint(self) -> str:
        self._fingerprint = self._fingerprint or self._make_fingerprint()
        return self._fingerprint

    @property
    def dimension(self) -> int | None:
        return self._dimension

    def load(self) -> None:
        self._loaded()

    def embed(self, texts: Sequence[str]) -> Floats:
        return self._loaded().embed(texts)

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        return self._loaded().embed_queries(texts)

    def truncates(self, text: str) -> bool:
        return self._loaded().truncates(text)

    def close(self) -> None:
        with self._loading:
            self._model = None

    def _loaded(self) -> LocalModel:
        with self._loading:
            if self._model is None:
                self._model = self._load()
                self._dimension = self._model.dimension
            return self._model
