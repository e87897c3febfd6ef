from datetime import UTC, datetime, timedelta

from fourfold.engine.confidence import Evidence, confidence
from fourfold.ranking.factors import recency_factor
from fourfold.retrieval import Recency

now = datetime(2026, 11, 15, tzinfo=UTC)
for strength in (1.0, 0.2):
    recency = Recency(0.01, floor=0.3, strength=strength)
    print([round(recency_factor(recency, now - timedelta(days=days), now), 2) for days in (0, 7, 30, 70, 121, 365)])
# -> [1.0, 0.93, 0.74, 0.5, 0.3, 0.3]
# -> [1.0, 0.99, 0.95, 0.9, 0.86, 0.86]

named = Evidence(nearness=0.35, lead=0.1, first=1)
paraphrase = Evidence(nearness=0.6, words=0.2, lead=0.15, first=1)
exact = Evidence(nearness=0.3, words=1, lead=0.05, lead_words=0.8, alone=0.8, first=1)
print([round(confidence(each), 2) for each in (Evidence(), named, paraphrase, exact)])
# -> [0.01, 0.2, 0.62, 0.96]
