"""A service with the async memory, as a caller writes it."""

import asyncio
from pathlib import Path

from fourfold import AsyncMemory, NewItem, Result, SearchResponse, Settings, Why


async def best(memory: AsyncMemory, question: str) -> Result | None:
    response: SearchResponse = await memory.search(question, namespaces=["default", "archive"], min_confidence=0.2)
    notes = [f"{failure.retriever}: {failure.reason} ({failure.pending})" for failure in response.degraded]
    assert all(note.startswith("semantic") for note in notes), notes
    return response.results[0] if response.results else None


async def main(folder: Path) -> list[str]:
    lines: list[str] = []
    settings = Settings(preset="files", links=False)
    async with await AsyncMemory.open(folder / "store", embedder="none", settings=settings, background=False) as memory:
        await asyncio.gather(*(memory.add(NewItem(f"note {number}", key=str(number))) for number in range(3)))
        found = await best(memory, "note")
        if found is not None:
            why: Why = await memory.why(found.id, "note", filters="key != 2")
            lines += [str(why.rank), *why.reasons, str(found.explanation), str(found.item.metadata.get("line"))]
        removed: int = await memory.forget_matching("key in (0, 1)")
        counts: dict[str, int] = await memory.export(folder / "copy.jsonl")
        return [*lines, str(removed), str(counts), *await memory.unknown_names({"kind": "nota"})]


if __name__ == "__main__":
    asyncio.run(main(Path("notes")))
