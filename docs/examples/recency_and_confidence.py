from datetime import UTC, datetime, timedelta

from fourfold.engine.present import result_confidence
from fourfold.ranking.factors import recency_factor
from fourfold.retrieval import Recency

now = datetime(2026, 11, 15, tzinfo=UTC)
for strength in (1.0, 0.2):
    recency = Recency(0.01, floor=0.3, strength=strength)
    print([round(recency_factor(recency, now - timedelta(days=days), now), 2) for days in (0, 7, 30, 70, 121, 365)])
# -> [1.0, 0.93, 0.74, 0.5, 0.3, 0.3]
# -> [1.0, 0.99, 0.95, 0.9, 0.86, 0.86]

points = [(0.2, 0.0), (0.5, 0.0), (0.7, 0.0), (0.2, 1.0), (0.5, 1.0), (0.65, None), (None, 1.0)]
print([round(result_confidence(cosine, coverage), 2) for cosine, coverage in points])
# -> [0.05, 0.39, 0.78, 0.88, 0.99, 0.98, 0.92]
more = [(0.15, {"tags": 1.0}), (0.06, {"relation": 0.8}), (0.15, {"relation": 1.0})]
print([round(result_confidence(cosine, 0.0, **others), 2) for cosine, others in more])
# -> [0.83, 0.73, 0.96]
