"""Wrong arguments of public callables raise typed errors; the calls are generated from the signatures."""

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest
from engine_support import ids

import fourfold
from fourfold import Filters, HybridSearch, ItemPatch, Memory, MetadataTest, NewItem, Settings
from fourfold.arguments import checks_arguments
from fourfold.errors import FourfoldError, InvalidArgument, InvalidItem, InvalidQuery
from fourfold.model import Space

METHODS = [
    name
    for name in dir(Memory)
    if not name.startswith("_") and callable(getattr(Memory, name)) and name not in ("open", "close", "restore")
]
WRONG: tuple[Any, ...] = (
    object(), 5, -1, 2.5, float("nan"), True, None, "text", "", b"bytes", [], {}, (), [5], [None], ["a", 5], [[]],
    {"a": object()}, {5: 5}, {"semantic": "x"}, lambda *_: 5, Memory, datetime(2026, 1, 1, tzinfo=UTC), Path("nowhere"),
    "a\0b", "\ud800", Path("a\0b"),
)  # fmt: skip
ANYTHING = {"properties", "metadata"}
"""Parameters that take JSON, whose values have their own checks."""

VALID: dict[str, Any] = {
    "item": 1, "ids": [1], "items": [NewItem("one more")], "patch": ItemPatch(text="changed"), "filters": "kind = note",
    "text": "good", "name": "Known", "source": "Known", "relation": "knows", "target": "Other", "start": "Known",
    "goal": "Other", "content": "said", "edges": [("Known", "knows", "Other", 0.5)], "namespace": "default",
    "folders": ["folder"], "peer": "other", "lines": [{"ask": "heads"}], "kept": 1, "others": [], "fields": {},
    "proposal": 1, "space": Space("model", 2), "tool": "claude-code", "session": "s1",
}  # fmt: skip


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with Memory.open(tmp_path / "store", embedder="none", background=False) as opened:
        opened.add(NewItem("good", title="Known", kind="note", vector=[1.0, 0.0]))
        opened.add_edge("Known", "knows", "Other")
        yield opened


def given(method: str, tmp_path: Path) -> dict[str, Any]:
    """Valid arguments for the parameters that have no default."""
    parameters = inspect.signature(getattr(Memory, method)).parameters
    files = {"target": tmp_path / "copy"} if method in ("backup", "export", "move") else {"source": tmp_path / "rows"}
    paths = files if method in ("backup", "export", "move", "import_file") else {}
    special = {"item": "stored"} if method == "add" else {}
    known = {**VALID, **paths, **special}
    return {
        name: known[name]
        for name, parameter in parameters.items()
        if name != "self" and parameter.default is parameter.empty
    }


def outcome(call: Callable[[], Any]) -> BaseException | None:
    """None, or the typed error; anything else fails the test."""
    try:
        call()
    except FourfoldError as refused:
        error = refused
    else:
        return None
    assert error.message
    assert error.remedy
    return error


@pytest.mark.parametrize("method", METHODS)
def test_no_argument_of_a_method_raises_a_bare_error(memory: Memory, method: str, tmp_path: Path) -> None:
    parameters = [
        name for name in inspect.signature(getattr(Memory, method)).parameters if name not in ("self", "fields")
    ]
    for name in parameters:
        for wrong in WRONG:
            if (name, wrong) == ("delete_source", True):  # a valid call, which would delete the store
                continue
            arguments = {**given(method, tmp_path), name: wrong}
            error = outcome(lambda arguments=arguments: getattr(memory, method)(**arguments))
            if type(wrong) is object and name not in ANYTHING:
                assert isinstance(error, InvalidArgument), (name, wrong)
                assert name in error.message
    assert method in ("forget", "delete") or 1 in ids(memory.search("Known"))


@pytest.mark.parametrize("call", [Memory.open, Memory, HybridSearch], ids=lambda call: call.__qualname__)
def test_no_argument_of_an_opener_raises_a_bare_error(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "none")
    names = list(inspect.signature(call).parameters)
    store = Memory.open(tmp_path / "store", embedder="none", background=False).store
    needed = {Memory: {"store": store, "embedder": None}, HybridSearch: {"retrievers": []}}.get(call, {})
    for name in names:
        for wrong in (object(), b"bytes", [5], {5: 5}):
            arguments = {**needed, name: wrong}
            assert outcome(lambda arguments=arguments: call(**arguments)) is not None, (name, wrong)
    store.close()


@pytest.mark.parametrize("path", ["a\0b", "\ud800", Path("a\0b"), "long" * 100])
def test_no_path_to_open_or_restore_raises_a_bare_error(path: Any, tmp_path: Path) -> None:
    assert outcome(lambda: Memory.open(path, embedder="none")) is not None
    assert outcome(lambda: Memory.restore(path, tmp_path / "new")) is not None
    assert outcome(lambda: Memory.restore(tmp_path, path)) is not None


FIELDS = [
    (kind, field.name) for kind in (NewItem, ItemPatch, Filters, MetadataTest) for field in dataclasses.fields(kind)
]


@pytest.mark.parametrize(("kind", "field"), FIELDS, ids=lambda value: getattr(value, "__name__", value))
def test_no_field_of_a_value_raises_a_bare_error(memory: Memory, kind: Any, field: str) -> None:
    valid: dict[Any, dict[str, Any]] = {NewItem: {"text": "a"}, MetadataTest: {"key": "a", "op": "eq", "value": 1}}
    for wrong in WRONG:
        value = kind(**{**valid.get(kind, {}), field: wrong})
        match value:
            case NewItem():
                calls = [lambda value=value: memory.add(value)]
            case ItemPatch():
                calls = [lambda value=value: memory.update(1, value)]
            case _:
                filters = value if kind is Filters else Filters(metadata=(value,))
                calls = [
                    lambda filters=filters: memory.search("good", filters=filters),
                    lambda filters=filters: memory.list(filters),
                ]
        errors = [outcome(call) for call in calls]
        if type(wrong) is object:
            assert all(errors), (field, wrong)


def test_wrong_arguments_raise_type_errors_that_name_the_valid_types(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "store", embedder="none") as memory:
        with pytest.raises(TypeError, match=r"only is 5, a int.*a list, each element a string"):
            memory.search("x", only=5)
        with pytest.raises(InvalidArgument, match="item is 5"):
            memory.add(5)
        with pytest.raises(TypeError, match="unexpected keyword"):
            memory.search("x", k=3)
        with pytest.raises(InvalidArgument, match=r"^Memory\.forget: ids is 5"):
            memory.forget(5)


def test_names_that_people_guess(tmp_path: Path) -> None:
    """Fields of an item as arguments of `add`; `limit` for the number of results."""
    with Memory.open(tmp_path / "store", embedder="none") as memory:
        item = memory.add("opens at six", title="Harbour gate", tags=["port"], metadata={"floor": 1}, key="gate")
        assert (item.title, item.tags, item.metadata, item.key) == ("Harbour gate", ("port",), {"floor": 1}, "gate")
        again = memory.add(NewItem("opens at seven", key="gate"), title="Gate")
        assert (again.id, again.title, again.text) == (item.id, "Gate", "opens at seven")
        with pytest.raises(InvalidItem, match=r"no field 'tag'.*tags"):
            memory.add("x", tag="port")
        with pytest.raises(InvalidItem, match="tags of NewItem is 'port'"):
            memory.add("x", tags="port")
        memory.add_many([NewItem(f"gate {number}") for number in range(5)])
        assert len(memory.search("gate", limit=2).results) == 2
        with pytest.raises(InvalidQuery, match="both top_k and limit"):
            memory.search("gate", top_k=2, limit=3)
        assert memory.search("gate", fusion="rrf", rrf_k=7).plan.k == 7


def test_every_public_class_with_methods_checks_its_arguments() -> None:
    """A new public class must be listed here, or be covered by the calls above."""
    kinds = [getattr(fourfold, name) for name in fourfold.__all__]
    acting = {kind.__name__ for kind in kinds if not dataclasses.is_dataclass(kind) and isinstance(kind, type)}
    values = {"Hit", "Page", "FourfoldError", "Retriever", "Embedder", "BaseEmbedder"}
    assert acting - values <= {"AsyncMemory", "Memory", "RemoteMemory", "HybridSearch", "MetadataTest"}
    assert Settings().embedder


@checks_arguments
class _Checked:
    def call(self, count: int, *, names: Sequence[str] = (), way: Literal["in", "out"] = "in") -> None: ...


@pytest.mark.parametrize(
    ("count", "options"), [(True, {}), (1, {"names": [5]}), (1, {"way": "up"}), ("1", {"way": "in"})]
)
def test_calls_that_fitted_do_not_hide_a_wrong_one(count: Any, options: dict[str, Any]) -> None:
    checked = _Checked()
    for _ in range(2):
        checked.call(1)
        checked.call(1, names=["a"])
        checked.call(1, way="out")
    with pytest.raises(InvalidArgument):
        checked.call(count, **options)
