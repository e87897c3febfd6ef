import math
from collections.abc import Sequence

from fourfold import BaseEmbedder, Memory


class Letters(BaseEmbedder):
    name = "letters-1"
    dimension = 26

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1 + math.sqrt(text.lower().count(chr(97 + place))) for place in range(26)] for text in texts]


with Memory.open("notes", embedder=Letters()) as memory:
    memory.add("The router is in the cellar", wait=True)
    memory.add("Lunch is at noon", wait=True)
    first = memory.search("routers", only=["semantic"]).results[0]
    print(first.item.text)  # -> The router is in the cellar
    print(memory.status()["embedder"])  # -> letters-1/26
