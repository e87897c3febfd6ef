from fourfold.ranking.fusion import AutoInputs, fuse_auto
from fourfold.retrieval import Background, Hit

fusion = fuse_auto(
    AutoInputs(
        lists={"semantic": [Hit(1, 0.60), Hit(2, 0.40)], "keyword": [Hit(2, 9.0)]},
        average=Background(mean=0.20),
        coverage=0.8,
    )
)
print({name: round(weight, 3) for name, weight in fusion.weights.items() if weight})
# -> {'semantic': 0.426, 'keyword': 0.574}
print([(hit.id, round(hit.score, 3)) for hit in fusion.ranked])
# -> [(2, 0.798), (1, 0.426)]
