"""The numbers in docs/ranking.md and docs/presets.md are those of the code."""

import pytest
from docs_pages import ROOT, quoted, row

from fourfold.engine import confidence
from fourfold.limits import CANDIDATES, HUB
from fourfold.ranking import factors, fusion, plan
from fourfold.ranking.connections import BEST_HIT, LEAST_START, NEARNESS, PERHAPS
from fourfold.ranking.plan import PRESETS, RELATIONAL_DE, RELATIONAL_EN, RELATIONAL_WEIGHTS, Preset
from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.text import bm25
from fourfold.text.compounds import COMPOUND_WEIGHT, FORM_WEIGHT, PART_WEIGHT
from fourfold.text.entities import NAME_WORDS
from fourfold.text.keyword_query import INNER_PART_ITEMS

pytestmark = pytest.mark.spec("S1.11")

PAGE = "\n".join((ROOT / "docs" / name).read_text("utf-8") for name in ("ranking.md", "presets.md"))
TEXT = " ".join(PAGE.split())
WORDS = {6: "six"}
GRAPH = RETRIEVERS["graph"]
FITS = (confidence.BOTH, confidence.VECTORS, confidence.WORDS, confidence.READ)


def slopes(title: str, part: str) -> str:
    """The row of a piece of evidence in the table of slopes."""
    given = [getattr(fit.per, part) for fit in FITS]
    return f"{title} | {' | '.join(f'{slope:g}' if slope else '-' for slope in given)} |"


@pytest.mark.parametrize(
    "phrase",
    [
        f"BM25 (k1 {bm25.K1:g}, b {bm25.B:g})",
        f"lists its best {CANDIDATES} items",
        f"({COMPOUND_WEIGHT:g}: *Vertrag* finds *Mietvertrag*), a part of it ({PART_WEIGHT:g}: *Mietvertrag*",
        f"another form of a German verb ({FORM_WEIGHT:g}: *läuft* finds *laufen*",
        f"stores with at most {INNER_PART_ITEMS:,} German items",
        f"any run of up to {WORDS[NAME_WORDS]} words",
        f"its own items ({NEARNESS['own']}), over an edge to the neighbour's items ({NEARNESS['edge']} x",
        f"to items that mention it ({NEARNESS['names']}:",
        f"items that an item mentions get {NEARNESS['mentions']} of it, items that mention it "
        f"get {NEARNESS['mentioned-by']},",
        f"(*find*, *high school*), the node has strength {PERHAPS}.",
        f"The best of these has strength {BEST_HIT}, and the strength of the others decreases with the square",
        f"items under {LEAST_START} are not used",
        f"An edge passes {NEARNESS['edge']} x the strength to the power of 1.5",
        f"belongs to more than {HUB} items",
        f"(L + {bm25.BASE_LENGTH}) / (average L + {bm25.BASE_LENGTH})",
        f"e^({fusion.TEXT_ODDS.nearness:g} x nearness + unknown - coverage - fall - {-fusion.TEXT_ODDS.prior:g})",
        f"{fusion.TEXT_ODDS.foreign:g} x the share of the items in the other of the two languages x (1 - unknown)",
        f"they get {fusion.TEXT_FALLBACK['semantic']:g} and {fusion.TEXT_FALLBACK['keyword']:g};",
        f"the graph gets {GRAPH.share:g}, the walk {GRAPH.expansion_share:g} and tags the square of the share",
        f"stays below {fusion.HELD_SHARES['auto']:g} of that ({fusion.HELD_SHARES['rrf']:g} in `rrf`)",
        f"contains less than {fusion.NAMED_COVERAGE:g} of what the best one by text contains of the query",
        f"Cosines: from {fusion.BELOW_AVERAGE:g} (the store's average)",
        f"German: {', '.join(RELATIONAL_DE)} -",
        f"English: {', '.join(RELATIONAL_EN)} ",
        f"relational {' / '.join(f'{weight:g}' for weight in RELATIONAL_WEIGHTS.values())} |",
        f"under {plan.SMALL_STORE_ITEMS} | {plan.adaptive_alpha(plan.SMALL_STORE_ITEMS - 1):g} |",
        f"{plan.SMALL_STORE_ITEMS} to {plan.LARGE_STORE_ITEMS:,} | {plan.adaptive_alpha(plan.LARGE_STORE_ITEMS):g} |",
        f"more | {plan.adaptive_alpha(plan.LARGE_STORE_ITEMS + 1):g} |",
        f"min(1, {plan.TAG_BOOST:g} x (1 - alpha))",
        f"decay {factors.DECAY:g}, floor 0.3",
        f"strength {factors.RECENCY_STRENGTHS['auto']:g}; in rrf {factors.RECENCY_STRENGTHS['rrf']:g}",
        f"A list of more than {fusion.FEW_TIES} items that is all ties adds nothing",
        f"tag `{factors.EVERGREEN}` has factor 1",
        f"| constant | {' | '.join(f'{fit.constant:g}' for fit in FITS)} |",
        slopes("between the store's average (0) and 1", "nearness"),
        slopes("of the words outside of the name", "words"),
        slopes("how far its cosine exceeds that of every other item", "lead"),
        slopes("how far its share of all words exceeds that of every other item", "lead_words"),
        slopes("or the square of the share of the query that is its tags", "alone"),
        slopes("at the other end of a relation that the query asks for", "asked"),
        slopes("*first*: 1 for the first result", "first"),
        slopes(f"1 / (1 + e^(-score / {confidence.READ_SCALE:g}))", "read"),
        f"a confidence below {confidence.SHARE:g} of that of the first one",
        f"and all if that is below {confidence.LEAST:g}.",
    ],
)
def test_documented_number_matches_the_code(phrase: str) -> None:
    assert phrase in TEXT


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_every_preset_is_documented_with_its_values(preset: Preset) -> None:
    _, retrievers, weights, fusion, top_k, routing, fading = row(PAGE.partition("| preset |")[2], preset.name)
    assert retrievers in (", ".join(preset.retrievers), "all four")
    if preset.weights is not None:
        assert weights.startswith(" / ".join(f"{weight:g}" for weight in preset.weights.values()))
    assert quoted(fusion) == [preset.fusion]
    assert (top_k, routing) == (str(preset.top_k), {"off": "-"}.get(preset.routing, preset.routing))
    assert (fading == "-") == (preset.recency is None)
    assert f"**`{preset.name}`" in PAGE
