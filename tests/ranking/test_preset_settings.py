"""Settings of presets."""

import pytest

from fourfold.errors import InvalidSetting
from fourfold.ranking.plan import PlanSettings
from fourfold.retrieval import Recency


@pytest.mark.spec("S2.3")
@pytest.mark.spec("S4.3")
def test_missing_weights_come_from_the_preset():
    settings = PlanSettings(wiki_weights={}, insights_weights={"semantic": 0.5, "graph": 0.3})
    assert settings.wiki_weights == {"semantic": 0.5, "keyword": 0.5}
    assert settings.insights_weights == {"semantic": 0.5, "keyword": 0.2, "graph": 0.3}


@pytest.mark.spec("S2.3")
@pytest.mark.spec("S4.3")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"wiki_top_k": 0}, "RETRIEVAL_TOP_K is 0"),
        ({"wiki_top_k": 101}, "RETRIEVAL_TOP_K is 101"),
        ({"wiki_weights": {"semantic": 0.7}}, "RETRIEVAL_VECTOR_WEIGHT .* sum to 1.2"),
        ({"insights_weights": {"graph": 0.5}}, "hybrid_search_weights: .* sum to"),
        ({"insights_weights": {"vector": 0.0}}, "hybrid_search_weights: .*'vector'"),
        ({"memories_alpha": 1.5}, "HYBRID_ALPHA is 1.5"),
        ({"memories_recency": Recency(-1)}, "RECENCY_DECAY is -1"),
        ({"memories_recency_strength": 1.5}, "strength of recency is 1.5"),
    ],
)
def test_invalid_settings_are_rejected_when_they_are_loaded(wrong, said):
    with pytest.raises(InvalidSetting, match=said):
        PlanSettings(**wrong)
