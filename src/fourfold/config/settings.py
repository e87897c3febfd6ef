"""All settings with their names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from fourfold import limits
from fourfold.config.inherited import INHERITED
from fourfold.config.kinds import (
    RATE,
    SECONDS,
    SHARE,
    SWITCH,
    TEXT,
    TOKENS,
    WORDS,
    ZONE,
    Kind,
    Setting,
    of_option,
    one_of,
    whole,
)
from fourfold.ranking.options import OPTIONS
from fourfold.ranking.presets import PlanSettings

if TYPE_CHECKING:
    from fourfold.logs import Format, Level
    from fourfold.ranking.time_windows import TimeMode
    from fourfold.text.secrets import SecretMode


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. Fields that may hold a secret are left out of `repr`."""

    store: str | None = field(default=None, repr=False)
    """A folder or a DSN; None: the user's data folder."""
    index: str | None = field(default=None, repr=False)
    """The address of a distributed index for a PostgreSQL store."""
    namespace: str = "default"
    embedder: str = "minilm"
    openai_base_url: str = field(default="https://api.openai.com/v1", repr=False)
    openai_api_key: str = field(default="", repr=False)
    openai_model: str = "text-embedding-3-small"
    openai_dimensions: int | None = None
    openai_timeout: float = 30.0
    onnx_provider: str = "cpu"
    """The execution provider of models that onnxruntime runs, such as cuda."""
    preset: str = "auto"
    presets_file: str | None = None
    """The file of tuned presets; None: presets.json in the user's configuration folder."""
    top_k: int | None = None
    """None: that of the preset."""
    rerank: str = "off"
    rerank_seconds: float = 1.0
    """Time of a whole search with reranking; the model gets the time that the retrievers leave."""
    rerank_base_url: str = field(default="", repr=False)
    """Address of an endpoint in the format of Cohere and Jina."""
    rerank_api_key: str = field(default="", repr=False)
    rerank_model: str = ""
    rerank_languages: tuple[str, ...] = ()
    """Languages that the model of an endpoint or a folder knows; empty: all."""
    embed_seconds: float = 5.0
    """How long a command that does not wait embeds what it stored; a worker in the background does the rest."""
    time: TimeMode = "boost"
    """The effect of a time in a query."""
    time_zone: str | None = None
    """The zone in which queries name times, such as Europe/Berlin; None: that of this machine."""
    secrets: SecretMode = "mask"
    """How API keys, tokens and passwords in stored text are treated."""
    links: bool = True
    """Whether titles, links and mentions become nodes and edges of the graph."""
    retriever_seconds: float = limits.RETRIEVER_SECONDS
    hook_seconds: float = 5.0
    """The deadline of a hook of an agent, for everything that it does."""
    hook_min_confidence: float = 0.2
    """Confidence from which on a memory is given to an agent with a prompt."""
    hook_tokens: int = 1000
    """Budget of the memories that a hook gives to an agent."""
    log_level: Level = "warning"
    """Log level of the command line and the servers; the library does not configure logging."""
    log_format: Format = "text"
    http_hosts: tuple[str, ...] = ()
    """Host names that a server over HTTP accepts besides its address."""
    http_tokens: tuple[str, ...] = field(default=(), repr=False)
    """`NAMESPACE[+NAMESPACE...][:SCOPE]:SECRET` each; * for every namespace. If there is one, HTTP requires a token."""
    http_requests_per_minute: int | None = None
    """Limit for each token; None: no limit."""
    token: str = field(default="", repr=False)
    """Token for the server, if `store` is an http address."""
    plan: PlanSettings = field(default_factory=PlanSettings)
    """The inherited settings, each in its preset."""


_DEFAULT: Final = Settings()


def _own(**kinds: Kind) -> dict[str, Setting]:
    return {name: Setting(kind, getattr(_DEFAULT, name)) for name, kind in kinds.items()}


SETTINGS: Final[Mapping[str, Setting]] = {
    **_own(store=TEXT, index=TEXT, namespace=TEXT, embedder=TEXT, openai_base_url=TEXT, openai_api_key=TEXT),
    **_own(openai_model=TEXT, openai_dimensions=whole(limits.VECTOR_DIMENSIONS), openai_timeout=SECONDS),
    **_own(onnx_provider=TEXT),
    **_own(log_level=one_of("debug", "info", "warning", "error"), log_format=one_of("text", "json")),
    **_own(http_hosts=WORDS, http_tokens=TOKENS, http_requests_per_minute=whole(1_000_000), token=TEXT),
    **_own(**{option.name: of_option(option) for option in OPTIONS.values() if option.setting}),
    **_own(presets_file=TEXT),
    **_own(rerank_seconds=SECONDS, rerank_base_url=TEXT, rerank_api_key=TEXT, rerank_model=TEXT),
    **_own(rerank_languages=WORDS),
    **_own(time_zone=ZONE, secrets=one_of("mask", "refuse", "allow")),
    **_own(links=SWITCH, retriever_seconds=SECONDS, embed_seconds=RATE),
    **_own(hook_seconds=SECONDS, hook_min_confidence=SHARE, hook_tokens=whole(limits.ANSWER_TOKENS)),
    **INHERITED,
}
"""All settings by full name, such as `query_routing.relational_weights.graph`."""
