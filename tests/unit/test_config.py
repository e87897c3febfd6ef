"""Configuration: flag, environment, file, preset, default; wrong values are refused where they stand."""

from pathlib import Path

import pytest

from fourfold.config import SETTINGS, Loaded, Settings, default_file, load
from fourfold.errors import InvalidSetting

SECRET = "sk-canary-7f3a"


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's folders are empty ones of this test."""
    for name in ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def from_file(tmp_path: Path, text: str) -> Loaded:
    return load({}, {}, write(tmp_path / "fourfold.yaml", text))


def refusal(tmp_path: Path, text: str) -> InvalidSetting:
    with pytest.raises(InvalidSetting) as refused:
        from_file(tmp_path, text)
    return refused.value


# ---------------------------------------------------------------- order


def test_nothing_set_gives_the_defaults() -> None:
    assert load({}, {}, None).settings == Settings()


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    file = write(tmp_path / "c.yaml", "namespace: filed\nembedder: none\n")
    environ = {"FOURFOLD_NAMESPACE": "env"}
    assert load({}, {}, file).settings.namespace == "filed"
    assert load({}, environ, file).settings.namespace == "env"
    loaded = load({"namespace": "flagged"}, environ, file)
    assert loaded.settings.namespace == "flagged"
    assert loaded.settings.embedder == "none"


def test_every_value_says_where_it_came_from(tmp_path: Path) -> None:
    file = write(tmp_path / "c.yaml", "# mine\nembedder: none\nlinks: off\n")
    origins = load({"namespace": "x", "store": None}, {"FOURFOLD_TOP_K": "7"}, file).origins
    assert origins["namespace"] == "flag"
    assert origins["top_k"] == "environment FOURFOLD_TOP_K"
    assert origins["embedder"] == f"file {file}:2"
    assert origins["links"] == f"file {file}:3"
    assert origins["store"] == "default"
    assert origins["retrieval_top_k"] == "preset wiki"
    assert set(origins) == set(SETTINGS)


TEXTS = {
    "time": "filter", "secrets": "refuse", "time_zone": "Europe/Berlin", "preset": "wiki", "links": "off",
    "store": "folder", "log_level": "info", "log_format": "json", "rerank": "auto", "http_tokens": "a:0123456789abcdef",
    "http_requests_per_minute": "2", "openai_dimensions": "2", "openai_timeout": "2", "retriever_seconds": "2",
    "rerank_seconds": "2", "hook_seconds": "2", "capture": "auto", "receipts": "off", "hook_tokens": "2",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_every_setting_has_an_environment_variable(name: str) -> None:
    text = TEXTS.get(name, "3" if "top_k" in name else "0.0")
    if name.startswith(("retrieval_v", "retrieval_b", "hybrid_search", "query_routing.relational_w")):
        text = str(SETTINGS[name].default)
    variable = f"FOURFOLD_{name.replace('.', '_').upper()}"
    assert load({}, {variable: text}, None).origins[name] == f"environment {variable}"


def test_a_reranker_can_be_switched_off_in_a_file(tmp_path: Path) -> None:
    assert load({}, {}, write(tmp_path / "c.yaml", "rerank: off\n")).settings.rerank == "off"
    assert load({}, {}, write(tmp_path / "c.yaml", "rerank: auto\n")).settings.rerank == "auto"
    with pytest.raises(InvalidSetting, match="rerank has to be off, auto, ms-marco, endpoint or onnx:FOLDER"):
        load({}, {}, write(tmp_path / "c.yaml", "rerank: on\n"))


def test_an_empty_variable_is_not_set() -> None:
    assert load({}, {"FOURFOLD_STORE": ""}, None).settings.store is None


@pytest.mark.parametrize(("text", "links"), [("off", False), ("on", True), ("No", False), ("1", True)])
def test_switches_of_the_environment(text: str, links: bool) -> None:
    assert load({}, {"FOURFOLD_LINKS": text}, None).settings.links is links


def test_top_k_that_is_not_set_is_the_presets() -> None:
    assert load({"preset": "insights"}, {}, None).shown()["top_k"] == (5, "preset insights")
    assert load({"preset": "insights"}, {}, None).settings.top_k is None
    assert load({"preset": "wiki"}, {"RETRIEVAL_TOP_K": "9"}, None).shown()["top_k"].value == 9


# ---------------------------------------------------------------- the file


def test_the_users_file_is_read() -> None:
    write(default_file(), "preset: files\n")
    assert load({}, {}, None).settings.preset == "files"


def test_a_named_file_stands_for_the_users(tmp_path: Path) -> None:
    write(default_file(), "preset: files\n")
    assert from_file(tmp_path, "top_k: 3\n").settings.preset == "auto"


@pytest.mark.parametrize("name", ["fourfold.yaml", ".fourfold.yaml", "fourfold.yml", ".env", "config.yaml"])
@pytest.mark.parametrize("below", [".", "deeper/still"])
def test_a_file_in_the_working_folder_is_never_read(name, below, tmp_path, monkeypatch):
    """Reliability 21: a cloned project must not choose the endpoint that gets the user's key."""
    write(tmp_path / "clone" / name, "openai_base_url: https://evil.example\nFOURFOLD_PRESET=wiki\n")
    (tmp_path / "clone" / below).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path / "clone" / below)
    assert load({}, {}, None).settings == Settings()


def test_an_unknown_key_names_its_line_and_the_likely_one(tmp_path: Path) -> None:
    wrong = refusal(tmp_path, "preset: auto\n\ntopk: 3\n")
    assert "fourfold.yaml:3" in wrong.message
    assert "topk" in wrong.message
    assert "top_k" in wrong.remedy


@pytest.mark.parametrize(("text", "line"), [
    ("preset: auto\ntop_k: many\n", 2), ("top_k: 3.5", 1), ("top_k: true", 1), ("\n\nlinks: 'off'", 3),
    ("namespace: 12", 1), ("preset: [auto]", 1), ("preset: nonsense", 1), ("retriever_seconds: .nan", 1),
    ("store: {folder: x}", 1), ("query_routing: 3", 1), ("query_routing:\n  relational_keywords:\n    de: nutzt", 3),
    ("query_routing:\n  relational_keywords:\n    fr: [a]", 3), ("hybrid_search_weights:\n  semantic: lots", 2),
    ("hybrid_search_weights:\n  vectors: 1", 2), ("- a\n- list", 1), ("a: [unclosed\nb: 1", 2),
    ("preset: auto\npreset: wiki", 2), ("preset: !!python/object/apply:os.system [ls]", 1),
    ("preset: auto\n---\npreset: wiki", 2), ("preset: auto\nlinks: !!bool foo", 2),
    ('preset: auto\n\ntop_k: !!int ""', 3), ("preset: !!timestamp foo", 1), ("preset: auto\ntop_k: !!float x", 2),
    ("preset: !!binary ä", 1), ("preset: !!set [a]", 1), ("top_k: " + "9" * 5000, 1), ("top_k: 0x" + "f" * 5000, 1),
    ("top_k: 1" + ":59" * 3000, 1), ("preset: " + "[" * 5000, 1), ("\npreset: &a auto\nnamespace: *a", 3),
    ("a: &a {x: 1}\nb: &b {p: *a, q: *a}\nc: {p: *b, q: *b}", 2), ("? [a, b]\n: 1", 1), ("preset: {[a]: 1}", 1),
    ("preset: auto\nnamespace: a\x01b", 2), ("preset: 2024-13-45", 1),
])  # fmt: skip
def test_a_wrong_value_names_its_line(text: str, line: int, tmp_path: Path) -> None:
    assert f"fourfold.yaml:{line}:" in refusal(tmp_path, text).message


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "top_k:\n", "top_k: null\nquery_routing:\n", "\ufeffpreset: auto\n"]
)
def test_an_empty_file_or_value_sets_nothing(text: str, tmp_path: Path) -> None:
    assert from_file(tmp_path, text).settings == Settings()


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="cannot be read"):
        load({}, {}, tmp_path / "absent.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidSetting, match="cannot be read"):
        load({}, {}, tmp_path / "binary.yaml")


@pytest.mark.spec("S2.3", "S5.5")
@pytest.mark.parametrize(
    ("variable", "text"),
    [
        *(("FOURFOLD_TOP_K", "0"), ("FOURFOLD_TOP_K", "101"), ("FOURFOLD_LINKS", "perhaps"), ("HYBRID_ALPHA", "1.1")),
        *(("RETRIEVAL_TOP_K", "0"), ("RETRIEVAL_TOP_K", "101"), ("RECENCY_DECAY", "-0.01"), ("RECENCY_DECAY", "nan")),
        *(("FOURFOLD_RECENCY_FLOOR", "1.1"), ("FOURFOLD_RECENCY_FLOOR", "-0.1"), ("FOURFOLD_RECENCY_STRENGTH", "2")),
    ],
)
def test_a_wrong_variable_is_named(variable: str, text: str) -> None:
    with pytest.raises(InvalidSetting, match=variable):
        load({}, {variable: text}, None)


# ---------------------------------------------------------------- inherited names


@pytest.mark.spec("S2.3")
def test_retrieval_variables_set_the_wiki_preset() -> None:
    environ = {"RETRIEVAL_TOP_K": "7", "RETRIEVAL_VECTOR_WEIGHT": "0.8", "RETRIEVAL_BM25_WEIGHT": "0.2"}
    settings = load({}, environ, None).settings
    assert settings.plan.wiki_top_k == 7
    assert settings.plan.wiki_weights == {"semantic": 0.8, "keyword": 0.2}
    assert settings.top_k is None


@pytest.mark.spec("S2.3")
@pytest.mark.parametrize(
    ("variable", "weights"),
    [
        ("RETRIEVAL_VECTOR_WEIGHT", {"semantic": 0.7, "keyword": 0.3}),
        ("RETRIEVAL_BM25_WEIGHT", {"semantic": 0.3, "keyword": 0.7}),
    ],
)
def test_one_weight_alone_leaves_the_other_the_rest(variable: str, weights: dict[str, float], tmp_path: Path) -> None:
    loaded = load({}, {variable: "0.7"}, None)
    assert loaded.settings.plan.wiki_weights == weights
    assert f"rest of {variable.lower()}" in loaded.origins.values()
    assert from_file(tmp_path, f"{variable.lower()}: 0.7\n").settings.plan.wiki_weights == weights


@pytest.mark.spec("S4.3", "S4.4")
def test_old_weights_in_the_file_leave_the_graph_its_own(tmp_path: Path) -> None:
    text = "hybrid_search_weights: {semantic: 0.7, keyword: 0.3}\nretrieval_vector_weight: 1\n"
    plan = from_file(tmp_path, text).settings.plan
    assert plan.insights_weights == pytest.approx({"semantic": 0.56, "keyword": 0.24, "graph": 0.2})
    assert plan.wiki_weights == {"semantic": 1, "keyword": 0}


@pytest.mark.spec("S5.3", "S5.5")
def test_alpha_and_decay_set_the_memories_preset(tmp_path: Path) -> None:
    plan = load({}, {"HYBRID_ALPHA": "0.25", "RECENCY_DECAY": "0"}, None).settings.plan
    assert plan.memories_alpha == 0.25
    assert plan.memories_recency.decay == 0
    assert plan.memories_recency_strength is None
    assert from_file(tmp_path, "recency_strength: 1\n").settings.plan.memories_recency_strength == 1
    assert from_file(tmp_path, "recency_floor: 0\n").settings.plan.memories_recency.floor == 0


def test_our_own_variable_overrides_an_inherited_one() -> None:
    environ = {"HYBRID_ALPHA": "0.25", "FOURFOLD_HYBRID_ALPHA": "0.75"}
    assert load({}, environ, None).settings.plan.memories_alpha == 0.75


@pytest.mark.spec("S4.3")
def test_routing_comes_from_the_file_key_by_key(tmp_path: Path) -> None:
    text = """
hybrid_search_weights: {semantic: 0.5, keyword: 0.3}
query_routing:
  relational_keywords:
    en: [depends on, owns]
  relational_weights: {semantic: 0.2, graph: 0.6}
"""
    plan = from_file(tmp_path, text).settings.plan
    assert plan.insights_weights == {"semantic": 0.5, "keyword": 0.3, "graph": 0.2}
    assert plan.routing.en == ("depends on", "owns")
    assert "gehört zu" in plan.routing.de
    assert plan.routing.relational_weights == {"semantic": 0.2, "keyword": 0.2, "graph": 0.6}


@pytest.mark.spec("S4.3")
@pytest.mark.parametrize(
    "text", ["hybrid_search_weights:\n  semantic: 0.7\n", "query_routing:\n  relational_weights:\n    graph: 0.5\n"]
)
def test_weights_that_do_not_sum_to_one_are_refused_at_load(text: str, tmp_path: Path) -> None:
    wrong = refusal(tmp_path, text)
    assert "sum to 1.1" in wrong.message
    assert f"fourfold.yaml:{text.count(chr(10))}" in wrong.message


# ---------------------------------------------------------------- secrets


def test_secrets_are_shown_as_set_and_never_in_repr() -> None:
    environ = {
        "FOURFOLD_OPENAI_API_KEY": SECRET,
        "FOURFOLD_HTTP_TOKENS": f"alpha:{SECRET}-0123456789",
        "FOURFOLD_STORE": f"postgresql://me:{SECRET}@host/db?sslmode=require&password={SECRET}",
        "FOURFOLD_OPENAI_BASE_URL": f"https://user:{SECRET}@proxy.example/v1",
    }
    loaded = load({}, environ, None)
    assert loaded.settings.openai_api_key == SECRET
    assert loaded.shown()["openai_api_key"].value == loaded.shown()["http_tokens"].value == "set"
    assert "host/db" in loaded.shown()["store"].value
    assert SECRET not in repr(loaded) + repr(loaded.settings) + repr(loaded.shown())


@pytest.mark.parametrize("text", [f"openai_api_key: [{SECRET}]", f"openai_api_key: {{a: {SECRET}}}", f"a: [{SECRET}"])
def test_errors_never_quote_a_secret(text: str, tmp_path: Path) -> None:
    assert SECRET not in str(refusal(tmp_path, text))


@pytest.mark.parametrize("written", [r'"a\0b"', r'"\ud800"'])
@pytest.mark.parametrize("name", ["store", "namespace", "openai_base_url"])
def test_text_that_nothing_can_be_named_by_is_refused(tmp_path: Path, name: str, written: str) -> None:
    assert "fourfold.yaml:1" in refusal(tmp_path, f"{name}: {written}\n").message
