"""Embedders of OpenAI-compatible endpoints, against a real server that misbehaves in every way we know of."""

import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import numpy as np
import pytest
from fault_server import Server, vector

from fourfold.embed.endpoint import (
    BATCH_TEXTS,
    TEXT_CHARACTERS,
    OpenAIEmbedder,
    OpenAISettings,
    message_of,
    redirect_target,
    retry_after,
    shown,
)
from fourfold.errors import EmbedderUnavailable, InvalidSetting

CANARY = "sk-canary-4f1d9b7a2c8e"
DOCUMENT = "the secret recipe of the grandmother from Graz"

Open = Callable[..., OpenAIEmbedder]


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def open_embedder(server: Server, pauses: list[float]) -> Iterator[Open]:
    opened: list[OpenAIEmbedder] = []

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        return False

    def make(fault: str, **settings: object) -> OpenAIEmbedder:
        values = {"base_url": server.url(fault), "api_key": CANARY, **settings}
        opened.append(OpenAIEmbedder(OpenAISettings(**values), pause))  # type: ignore[arg-type]
        return opened[-1]

    yield make
    for embedder in opened:
        embedder.close()


@contextmanager
def refused(match: str, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Asserts a typed error with a remedy that contains neither the key nor the document."""
    caplog.set_level(logging.DEBUG)
    with pytest.raises(EmbedderUnavailable, match=match) as caught:
        yield
    assert caught.value.remedy
    left_behind = caplog.text + repr(caught.value) + "".join(traceback.format_exception(caught.value))
    for secret in (CANARY, CANARY[:10], CANARY[-4:], DOCUMENT[:16]):
        assert secret not in left_behind


def unit(text: str) -> np.ndarray:
    values = np.array(vector(text))
    return (values / np.linalg.norm(values)).astype(np.float32)


def test_vectors_come_back_in_order_and_normalised(open_embedder: Open, server: Server) -> None:
    embedder = open_embedder("ok", model="my-model")
    rows = embedder.embed(["a", "bbb"])
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, [unit("a"), unit("bbb")], rtol=1e-6)
    assert embedder.dimension == 4
    path, headers, body = server.seen[0]
    assert path == "/ok/v1/embeddings"
    assert headers["Authorization"] == f"Bearer {CANARY}"
    assert body == {"model": "my-model", "input": ["a", "bbb"]}


def test_no_key_sends_no_authorization(open_embedder: Open, server: Server) -> None:
    open_embedder("ok", api_key=None).embed(["a"])
    assert "Authorization" not in server.seen[0][1]


def test_many_texts_go_in_batches(open_embedder: Open, server: Server) -> None:
    texts = ["x" * n for n in range(1, 2 * BATCH_TEXTS + 3)]
    rows = open_embedder("ok").embed(texts)
    np.testing.assert_allclose(rows, [unit(text) for text in texts], rtol=1e-6)
    assert [len(body["input"]) for _, _, body in server.seen] == [BATCH_TEXTS, BATCH_TEXTS, 2]


def test_without_texts_no_request_is_sent(open_embedder: Open, server: Server) -> None:
    assert open_embedder("ok", dimensions=4).embed([]).shape == (0, 4)
    assert server.seen == []


@pytest.mark.spec("B4")
def test_any_text_is_sent_safely(open_embedder: Open, server: Server) -> None:
    embedder = open_embedder("ok")
    embedder.embed(["", "\ud800", "\0", "y" * (TEXT_CHARACTERS + 1)])
    assert server.seen[0][2]["input"] == [" ", "?", "\0", "y" * TEXT_CHARACTERS]
    assert embedder.truncates("y" * (TEXT_CHARACTERS + 1))
    assert not embedder.truncates("y" * TEXT_CHARACTERS)


@pytest.mark.spec("B8")
def test_loading_learns_the_dimension_once(open_embedder: Open, server: Server) -> None:
    embedder = open_embedder("ok")
    assert embedder.dimension is None
    before = embedder.fingerprint
    embedder.load()
    embedder.load()
    assert embedder.dimension == 4
    assert embedder.fingerprint == before
    assert len(server.seen) == 1


@pytest.mark.spec("B8")
def test_the_fingerprint_names_provider_model_and_dimensions() -> None:
    def fingerprint(**settings: object) -> str:
        return OpenAIEmbedder(OpenAISettings(**settings)).fingerprint  # type: ignore[arg-type]

    different = [{}, {"model": "b"}, {"dimensions": 256}, {"base_url": "https://example.org/v1"}]
    assert len({fingerprint(**settings) for settings in different}) == len(different)
    assert fingerprint(api_key="one") == fingerprint(api_key="two", timeout=1)


@pytest.mark.spec("B8")
def test_wanted_dimensions_are_asked_for_and_checked(open_embedder, server, caplog):
    with refused("4 dimensions where 3 are expected", caplog):
        open_embedder("ok", dimensions=3).embed(["a"])
    assert server.seen[0][2]["dimensions"] == 3


@pytest.mark.spec("B8")
def test_a_model_that_changes_its_dimension_is_refused(open_embedder: Open, caplog: pytest.LogCaptureFixture) -> None:
    embedder = open_embedder("grows")
    embedder.embed(["a"])
    with refused("5 dimensions where 4 are expected", caplog):
        embedder.embed(["a"])


# ---------------------------------------------------------------- transient faults


@pytest.mark.parametrize(("fault", "pause"), [("429-once", 2.0), ("500-once", 0.5)])
def test_a_transient_error_is_retried_after_the_time_that_the_server_asks_for(
    open_embedder: Open, server: Server, pauses: list[float], fault: str, pause: float
) -> None:
    assert open_embedder(fault).embed(["a"]).shape == (1, 4)
    assert (pauses, len(server.seen)) == ([pause], 2)


@pytest.mark.parametrize(
    ("fault", "settings", "message", "expected"),
    [
        ("500", {}, "127.0.0.1 answered 500", [0.5, 1.0, 2.0]),
        ("429-long", {"timeout": 60}, "answered 429: slow down", [10.0, 10.0, 10.0]),
        ("429-long", {"timeout": 5}, "answered 429", []),  # a pause longer than the deadline
        ("half", {}, "cannot be reached", [0.5, 1.0, 2.0]),
    ],
)
def test_attempts_and_pauses_are_bounded(open_embedder, server, pauses, caplog, fault, settings, message, expected):
    with refused(message, caplog):
        open_embedder(fault, **settings).embed([DOCUMENT])
    assert (pauses, len(server.seen)) == (expected, len(expected) + 1)


def test_closing_ends_the_attempts(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    embedder = OpenAIEmbedder(OpenAISettings(base_url=server.url("500"), api_key=CANARY))
    embedder.close()
    with refused("answered 500", caplog):
        embedder.embed([DOCUMENT])
    assert len(server.seen) == 1


def test_a_refused_connection_is_a_typed_error(open_embedder, pauses, caplog):
    with refused(r"cannot be reached \(ConnectError", caplog):
        open_embedder("ok", base_url="http://127.0.0.1:9/v1").embed([DOCUMENT])
    assert len(pauses) == 3


# ---------------------------------------------------------------- faults that end by the deadline


@pytest.mark.parametrize("fault", ["hang", "drip", "drip-headers"])
def test_a_slow_server_ends_by_the_deadline(open_embedder: Open, fault: str, caplog: pytest.LogCaptureFixture) -> None:
    """Without the deadline, these answers would take forever, 2000 s and 2000 s."""
    with refused("did not answer within 0.3 s|cannot be reached", caplog):
        open_embedder(fault, timeout=0.3).embed([DOCUMENT])
    for thread in [thread for thread in threading.enumerate() if thread.name == "fourfold-endpoint"]:
        thread.join(30)
        assert not thread.is_alive(), "the abandoned request still runs"
    assert open_embedder("ok").embed(["a"]).shape == (1, 4)


def test_a_request_is_retried_when_the_timeout_of_another_closes_the_client(open_embedder, server, pauses):
    """Threads share one client. The closing thread is simulated: the server answers when the client is closed."""
    embedder = open_embedder("ok-when-released", timeout=60)
    found: list[np.ndarray] = []
    asking = threading.Thread(target=lambda: found.append(embedder.embed(["a"])))
    asking.start()
    assert server.waiting.acquire(timeout=60)
    embedder._endpoint._client.close()  # type: ignore[union-attr]
    server.let_go.set()
    asking.join(60)
    np.testing.assert_allclose(found, [[unit("a")]], rtol=1e-6)
    assert pauses == [0.5]


# ---------------------------------------------------------------- faults that are final


@pytest.mark.spec("B8")
@pytest.mark.parametrize(("fault", "message"), [
    ("nan", "NaN"), ("infinity", "NaN, infinite"), ("zero", "all zero"), ("text", "flat list of numbers"),
    ("ragged", "3 dimensions where 4 are expected"), ("too-few", "1 embeddings for 2 texts"),
    ("too-many", "3 embeddings for 2 texts"), ("same-index", "wrong indexes"), ("no-data", "sent no embeddings"),
    ("no-json", "no valid JSON"), ("deep-json", "no valid JSON"), ("huge", "sent more than 67108864 bytes"),
    ("bomb", "sent more than 67108864 bytes"), ("bad-gzip", "damaged gzip"),
    ("other-encoding", "sent no embeddings"), ("401", "answered 401. Check openai_api_key"),
    ("400", r"answered 400: the model `x` does not exist\[31m !{100,170}\. Check"), ("echo", r"answered 422\. "),
    ("redirect", "127.0.0.1 redirects to localhost, which is refused"),
])  # fmt: skip
def test_an_unusable_answer_is_refused_at_once_and_a_redirect_is_not_followed(
    open_embedder: Open, server: Server, caplog: pytest.LogCaptureFixture, fault: str, message: str
) -> None:
    with refused(message, caplog):
        open_embedder(fault).embed([DOCUMENT, "b"])
    assert [path for path, _, _ in server.seen] == [f"/{fault}/v1/embeddings"]


@pytest.mark.parametrize("fault", ["gzip", "shuffled"])
def test_a_packed_or_shuffled_answer_is_read(open_embedder: Open, server: Server, fault: str) -> None:
    np.testing.assert_allclose(open_embedder(fault).embed(["a", "bbb"]), [unit("a"), unit("bbb")], rtol=1e-6)
    assert server.seen[0][1]["Accept-Encoding"] == "gzip, identity"


# ---------------------------------------------------------------- settings


def test_the_key_is_in_no_repr(open_embedder: Open) -> None:
    embedder = open_embedder("ok")
    shown = repr(OpenAISettings(api_key=CANARY)) + repr(embedder) + repr(vars(embedder)) + embedder.fingerprint
    assert CANARY not in shown


@pytest.mark.parametrize("settings", [
    {"base_url": "ftp://example.org"}, {"base_url": "example.org/v1"}, {"base_url": "https://"},
    {"base_url": "https://example.org:port/v1"}, {"base_url": f"https://user:{CANARY}@example.org/v1"},
    {"base_url": f"https://example.org/v1?key={CANARY}"}, {"base_url": "https://example.org/v1\n"},
    {"api_key": f"{CANARY}\nX-Evil: 1"}, {"api_key": f"{CANARY}ü"}, {"model": " "}, {"dimensions": 0},
    {"dimensions": 10_000}, {"timeout": 0}, {"timeout": float("nan")},
])  # fmt: skip
def test_settings_that_cannot_work_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(InvalidSetting, match="openai_") as caught:
        OpenAIEmbedder(OpenAISettings(**settings))  # type: ignore[arg-type]
    assert CANARY not in str(caught.value)
    assert caught.value.remedy


# ---------------------------------------------------------------- what of an answer reaches the user


KEY = "sk-canary-4f1d9b7a2c8e"


@pytest.mark.parametrize(("body", "expected"), [
    (b'{"error": {"message": "no such model", "type": "x"}}', "no such model"),
    (b'{"error": "no such model"}', "no such model"), (b'{"message": "no such model"}', "no such model"),
    (b'{"detail": "no such model"}', "no such model"), (b'{"detail": [{"loc": 1}]}', ""),
    (b'{"error": {"message": 7}}', ""), (b'["no"]', ""), (b"<html>", ""), (b"\xff", ""), (b"[" * 200_000, ""),
    (b"", ""),
])  # fmt: skip
def test_the_message_of_any_compatible_server(body: bytes, expected: str) -> None:
    assert message_of(body) == expected


@pytest.mark.parametrize(("message", "texts", "expected"), [
    ("a\r\nb\x1b[2J\u202e c", (), "a b[2J c"), ("long " * 1000, (), ("long " * 1000)[:200]),
    *((f"bad key {part}", (), "") for part in (KEY, f"{KEY[:9]}...", f"***{KEY[-8:]}", KEY.upper())),
    *(("cannot read 'my own secret thoughts'", ["harmless", text], "") for text in (
        "my own secret thoughts about it", "  MY OWN\n secret   thoughts", "thoughts",
    )),
    ("the model does not exist", ["", "it", "a text about models"], "the model does not exist"),
])  # fmt: skip
def test_a_message_is_one_short_line_without_a_piece_of_the_key_or_of_a_text(message: str, texts, expected: str):
    assert shown(message, KEY, texts) == expected
    assert shown("no key needed", "") == "no key needed"


@pytest.mark.parametrize(("value", "expected"), [
    ("2", 2.0), ("0", 0.0), ("0.5", 0.5), ("86400", 10.0), ("1e400", 10.0), ("-1", None), ("nan", None), ("", None),
    ("soon", None), ("Wed, 21 Oct 2015 07:28:00 GMT", None),
])  # fmt: skip
def test_how_long_a_server_asks_to_wait(value: str, expected: float | None) -> None:
    assert retry_after(value) == expected


def test_a_future_date_counts_up_to_the_longest_pause() -> None:
    assert retry_after(format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)) == 10.0


@pytest.mark.parametrize(("location", "expected"), [
    ("https://evil.example/x?token=1", "evil.example"), ("/elsewhere", "another address"), ("", "another address"),
    ("http://[bad", "another address"),
])  # fmt: skip
def test_a_redirect_is_named_by_its_host_only(location: str, expected: str) -> None:
    assert redirect_target(location) == expected
