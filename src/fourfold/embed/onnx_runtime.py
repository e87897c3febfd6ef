"""The binding to onnxruntime: an ONNX file, its inputs and outputs, and pooling. Heavy imports happen on first use."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from fourfold.errors import EmbedderUnavailable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]
    Ints: TypeAlias = NDArray[np.int64]

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
        known: dict[str, Ints] = dict(zip(INPUTS, (ids, mask, ids * 0), strict=True))
        return {name: known[name].astype(dtype, copy=False) for name, dtype in self._inputs.items()}


def open_native(model: bytes | Path, provider: str = CPU, remedy: str = REMEDY, folder: Path | None = None) -> Any:
    """Opens a model for an execution provider; what that one cannot compute runs on the CPU."""
    native = import_native()
    native.disable_telemetry_events()  # Windows builds have it on
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
    found: list[str] = native.get_available_providers()
    for name in found:
        if name.casefold() in (provider.casefold(), full_name(provider).casefold()):
            return name
    known = ", ".join(name.removesuffix(PROVIDER_SUFFIX).lower() for name in found)
    message = f"onnxruntime {native.__version__} has no execution provider {provider!r}"
    raise EmbedderUnavailable(message, f"Set onnx_provider to one of {known}, or install the onnxruntime that has it")


def full_name(provider: str) -> str:
    return f"{provider.upper()}{PROVIDER_SUFFIX}"


def import_native() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        message = f"onnxruntime, which runs models, cannot be imported ({error})"
        raise EmbedderUnavailable(message, "Run `pip install --force-reinstall onnxruntime`") from error
    return onnxruntime


@contextmanager
def native_errors(action: str, remedy: str = REMEDY) -> Generator[None]:
    """Turns onnxruntime's exceptions, which share no base of their own, into ours."""
    state = import_native().capi.onnxruntime_pybind11_state
    known = tuple(getattr(state, name) for name in ERRORS if hasattr(state, name))
    try:
        yield
    except known as error:
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
