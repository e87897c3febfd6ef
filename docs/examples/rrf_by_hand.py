from fourfold.ranking.fusion import rrf, weighted
from fourfold.retrieval import Hit

lists = {
    "semantic": [Hit(1, 0.80), Hit(2, 0.60), Hit(3, 0.40)],  # (id, cosine)
    "keyword": [Hit(3, 12.0), Hit(1, 9.0), Hit(4, 3.0)],  # (id, BM25)
}
weights = {"semantic": 0.7, "keyword": 0.3}

print([(hit.id, round(hit.score, 6)) for hit in rrf(lists, weights, k=60).ranked])
# -> [(1, 0.016314), (3, 0.016029), (2, 0.01129), (4, 0.004762)]
print([(hit.id, round(hit.score, 6)) for hit in weighted(lists, weights).ranked])
# -> [(1, 0.9), (2, 0.35), (3, 0.3), (4, 0.0)]
