"""The options of a search: one description each, from which command line, tool schemas, settings and reference derive.

`Memory.search` has a keyword parameter for each of them; a test compares its signature with this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from fourfold import limits
from fourfold.ranking.factors import SOURCES, TIME_MODES
from fourfold.ranking.plan import CUTS, PRESETS, RERANKERS, is_rerank
from fourfold.ranking.retrievers import names_of_all
from fourfold.retrieval import FusionName


@dataclass(frozen=True, slots=True)
class SearchOption:
    name: str
    """The parameter of `Memory.search`."""
    holds: Literal["text", "whole", "number", "flag", "names", "weights", "vector", "filters"]
    help: str
    """Text of `--help` and the reference; `{retrievers}` is replaced by their names."""
    default: str = "`None`"
    """Default in the reference."""
    flag: str | None = ""
    """Option of the command line; --NAME if empty, None if no single option sets it."""
    metavar: str = ""
    spelled: str = ""
    """Form on the command line in the reference; empty: the flag with its value."""
    choices: tuple[str, ...] = ()
    accepts: Callable[[object], bool] | None = None
    """Whether a text is valid, where there are no fixed choices; `wanted` says what is."""
    wanted: str = ""
    least: float | None = None
    most: float | None = None
    argument: str | None = None
    """Argument of the search tools: the name, if there is `advice`; None if they have none."""
    advice: str = ""
    """Description of the argument for language models."""
    listed: bool = True
    """Whether the definitions of tools list the argument; unlisted arguments are accepted."""
    explains: bool = False
    """Whether `Memory.why` also takes the option."""
    setting: bool = False
    """Whether a setting of the same name is its default."""

    def __post_init__(self) -> None:
        if self.flag == "":
            object.__setattr__(self, "flag", f"--{self.name.replace('_', '-')}")
        if self.advice and self.argument is None:
            object.__setattr__(self, "argument", self.name)

    @property
    def described(self) -> str:
        choices = f" One of {', '.join(self.choices)}." if self.choices else ""
        return self.help.format(retrievers=names_of_all()) + choices

    @property
    def advised(self) -> str:
        return self.advice.format(retrievers=names_of_all())


_TABLE: Final = (
    SearchOption(
        "vector",
        "vector",
        "A list of numbers (as JSON), instead of a vector made from the text.",
        metavar="FILE",
        argument="query_embedding",
        advice="The vector to use instead of one made from the text.",
        explains=True,
    ),
    SearchOption(
        "top_k",
        "whole",
        f"How many results, 1 to {limits.TOP_K}.",
        "the preset's, or the setting `top_k` if no preset is named",
        flag="-k",
        metavar="N",
        least=1,
        most=limits.TOP_K,
        advice=f"Default: the preset's, {PRESETS['auto'].top_k} for auto.",
        setting=True,
    ),
    SearchOption(
        "limit",
        "whole",
        "Another name of `top_k`.",
        metavar="N",
        least=1,
        most=limits.TOP_K,
    ),
    SearchOption(
        "preset",
        "text",
        "Which retrievers run, and how their rankings are combined.",
        "the setting `preset`: `auto`",
        metavar="P",
        choices=tuple(PRESETS),
        advice="Leave out unless told.",
        listed=False,
        explains=True,
        setting=True,
    ),
    SearchOption(
        "fusion",
        "text",
        "How rankings are combined.",
        "the preset's",
        metavar="F",
        choices=get_args(FusionName),
        advice="Leave out unless told.",
        listed=False,
        explains=True,
    ),
    SearchOption(
        "weights",
        "weights",
        "Such as semantic=0.7,keyword=0.3: weights of {retrievers} that sum to 1.",
        "the preset's",
        metavar="W",
        advice="Of {retrievers}; their sum is 1. Leave out unless told.",
        explains=True,
    ),
    SearchOption(
        "alpha",
        "number",
        "Preset memories only: vectors and tags by rrf; 1 is vectors only, 0 is tags only.",
        "adaptive",
        metavar="A",
        least=0,
        most=1,
        advice="Preset memories only: 1 is vectors only, 0 is tags only.",
        listed=False,
        explains=True,
    ),
    SearchOption(
        "recency",
        "number",
        "How much age lowers a score: 0 is not at all, 1 multiplies it by the age.",
        "the preset's: none, except in `memories`",
        metavar="R",
        least=0,
        most=1,
        explains=True,
    ),
    SearchOption(
        "source_weights",
        "weights",
        f"Such as agent=0.8,import=0.5: factors from 0 to 1 of scores, by {', '.join(SOURCES)}.",
        "1 for all",
        metavar="W",
        advice=f"Factors from 0 to 1 of scores, by {', '.join(SOURCES)}. Leave out unless told.",
        listed=False,
        explains=True,
    ),
    SearchOption(
        "rerank",
        "text",
        f"Let a model that reads query and text together reorder the best results: {RERANKERS}.",
        "the setting `rerank`: `off`",
        metavar="M",
        accepts=is_rerank,
        wanted=RERANKERS,
        advice="off, auto or the name of a reranking model. Leave out unless told.",
        listed=False,
        explains=True,
        setting=True,
    ),
    SearchOption(
        "time",
        "text",
        "What a time in the query does (last week, im März): prefer items from then, or show no others.",
        "the setting `time`: `boost`",
        metavar="T",
        choices=TIME_MODES,
        advice="What a time named in the query does. Default: boost.",
        listed=False,
        explains=True,
        setting=True,
    ),
    SearchOption(
        "only",
        "names",
        "Run these retrievers only, of {retrievers}.",
        metavar="R[,R]",
    ),
    SearchOption(
        "rrf_k",
        "whole",
        "The constant of rrf.",
        "60",
        least=1,
        advice="The constant of reciprocal rank fusion.",
        listed=False,
        flag=None,
    ),
    SearchOption(
        "filters",
        "filters",
        "`Filters`, or a condition of the [grammar](#filter-grammar) as a mapping or as text.",
        spelled="--tag, --where ...",
        explains=True,
        flag=None,
    ),
    SearchOption(
        "per_source",
        "whole",
        "At most this many results per file; items without a path are not limited.",
        "2 in `auto`, else no limit",
        metavar="N",
        least=1,
    ),
    SearchOption(
        "min_confidence",
        "number",
        "Leave out results with a lower confidence, 0 to 1.",
        metavar="C",
        least=0,
        most=1,
        advice="Drop results below this.",
        listed=False,
    ),
    SearchOption(
        "cut",
        "text",
        "Leave out results that most likely do not answer, compared with the best one.",
        "`off`; `auto` in search tools and hooks",
        metavar="C",
        choices=CUTS,
        advice="off: also show results that most likely do not answer.",
        listed=False,
    ),
    SearchOption(
        "explain",
        "flag",
        "Show how each score came about.",
        "`False`",
        advice="Adds every field and how each score came about.",
        listed=False,
    ),
    SearchOption(
        "candidates",
        "flag",
        "Also return what every retriever listed, in `SearchResponse.candidates`, for trying other weights.",
        "`False`",
        spelled="",
        flag=None,
    ),
    SearchOption(
        "namespaces",
        "names",
        "Search several namespaces apart, and merge their results.",
        "the one that was opened",
        spelled="--namespace A,B",
        flag=None,
    ),
    SearchOption(
        "history",
        "flag",
        "Also find superseded values and earlier versions.",
        "`False`",
        advice="Also superseded values.",
    ),
    SearchOption(
        "as_of",
        "text",
        "Find what was believed at this ISO date (its end) or time.",
        metavar="TIME",
        advice="What was believed at this ISO date or time.",
        listed=False,
    ),
)

OPTIONS: Final[Mapping[str, SearchOption]] = {option.name: option for option in _TABLE}
"""By name, in the order of the parameters of `Memory.search`."""
