"""`onnx:FOLDER`: a sentence-transformers model that the user exported to ONNX, with its tokenizer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from fourfold import limits
from fourfold.embed.session import CPU, LocalEmbedder, Pooling, Recipe, Session, Tokenizer, content, digest
from fourfold.embed.wordpiece import WordPiece
from fourfold.errors import EmbedderUnavailable, MissingExtra

Shape = TypeVar("Shape", dict[str, Any], list[dict[str, Any]])

MODELS = ("model.onnx", "onnx/model.onnx")
TOKENIZERS = ("tokenizer.json", "vocab.txt")
MODULES = ("Transformer", "Pooling", "Normalize")
POOLINGS: dict[str, Pooling] = {
    "mean": "mean",
    "mean_tokens": "mean",
    "cls": "cls",
    "cls_token": "cls",
    "max": "max",
    "max_tokens": "max",
}

LONGEST = 2048
"""Most tokens of one text, whatever the model allows: attention needs memory quadratic in them."""

UNSET = 1_000_000
"""A model_max_length above this means that the model sets none."""

REMEDY = "FOLDER in `onnx:FOLDER` needs model.onnx (or onnx/model.onnx) and tokenizer.json (or vocab.txt)"
ANOTHER = "Use a model of transformer, pooling and normalisation only"


def folder_model(folder: Path, provider: str = CPU) -> LocalEmbedder:
    place = folder.expanduser().absolute()
    return LocalEmbedder(lambda: fingerprint(place), lambda: Session(recipe(place), provider))


def fingerprint(folder: Path) -> str:
    """By content, so that a folder may move; external weights (model.onnx_data) count as the model."""
    model = one_of(folder, MODELS)
    weights = digest(sorted(model.parent.glob("model.onnx*")), REMEDY)
    words = digest([one_of(folder, TOKENIZERS)], REMEDY)
    return f"onnx/sha256:{weights}/{words[:16]}/{pooling(folder)}/{max_tokens(folder)}"


def recipe(folder: Path) -> Recipe:
    refuse_other_modules(folder)
    return Recipe(one_of(folder, MODELS), tokenizer(folder), max_tokens(folder), pooling(folder))


def one_of(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise EmbedderUnavailable(f"{folder} has no {' or '.join(names)}", REMEDY)


def tokenizer(folder: Path) -> Tokenizer:
    file = one_of(folder, TOKENIZERS)
    if file.name == "vocab.txt":
        lowercase = settings(folder, "tokenizer_config.json").get("do_lower_case", True)
        return WordPiece(content(file, REMEDY), max_tokens(folder), lowercase=bool(lowercase))
    return SavedTokenizer(file, max_tokens(folder))


class SavedTokenizer:
    """A `tokenizer.json`, read by the library that wrote it (extra `onnx`)."""

    def __init__(self, file: Path, most: int) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingExtra(
                f"{file} needs the package tokenizers ({error})",
                "Install it: pip install 'fourfold[onnx]'; or use the vocab.txt of a WordPiece model instead",
            ) from error
        try:
            self._tokenizer = Tokenizer.from_buffer(content(file, REMEDY))
        except Exception as error:  # tokenizers raises nothing narrower
            raise EmbedderUnavailable(f"{file} is not a tokenizer ({error})", "Export the model again") from error
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(most)

    def pair(self, query: str, text: str) -> tuple[list[int], list[int]]:
        """Ids of both together, and to which of both each belongs. The library shortens the longer one."""
        encoding = self._tokenizer.encode(query, text)
        return encoding.ids, encoding.type_ids

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]

    def truncates(self, text: str) -> bool:
        return bool(self._tokenizer.encode(text).overflowing)


def pooling(folder: Path) -> Pooling:
    config = settings(folder, "1_Pooling/config.json")
    flags = [
        name.removeprefix("pooling_mode_") for name, on in config.items() if on is True and name != "include_prompt"
    ]
    wanted = [str(config["pooling_mode"])] if "pooling_mode" in config else flags or ["mean"]
    if len(wanted) > 1 or wanted[0] not in POOLINGS:
        message = f"{folder} pools by {' + '.join(wanted)}; mean, cls and max are supported"
        raise EmbedderUnavailable(message, ANOTHER)
    return POOLINGS[wanted[0]]


def max_tokens(folder: Path) -> int:
    limit = settings(folder, "sentence_bert_config.json").get("max_seq_length")
    limit = limit or settings(folder, "tokenizer_config.json").get("model_max_length")
    if isinstance(limit, int) and 2 < limit < UNSET:
        return min(limit, LONGEST)
    return limits.MODEL_TOKENS


def refuse_other_modules(folder: Path) -> None:
    """A dense layer after the pooling is not in the ONNX file: without it the vectors would be wrong."""
    for module in read_json(folder / "modules.json", list[dict[str, Any]]()):
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind not in MODULES:
            raise EmbedderUnavailable(f"{folder} has a module {kind}, which is not supported", ANOTHER)


def settings(folder: Path, name: str) -> dict[str, Any]:
    return read_json(folder / name, dict[str, Any]())


def read_json(file: Path, absent: Shape) -> Shape:
    """The content of a configuration file; it must have the type of the default for a missing file."""
    if not file.is_file():
        return absent
    try:
        value = json.loads(content(file, REMEDY))
    except ValueError as error:
        raise EmbedderUnavailable(f"{file} is not JSON ({error})", "Export the model again") from error
    if not isinstance(value, type(absent)):
        raise EmbedderUnavailable(f"{file} is not a JSON {type(absent).__name__}", "Export the model again")
    return value
