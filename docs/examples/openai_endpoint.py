import os

from fourfold import Memory, Settings

settings = Settings(
    embedder="openai",
    openai_base_url=os.environ.get("EMBEDDINGS_URL", "http://localhost:11434/v1"),  # Ollama
    openai_api_key=os.environ.get("EMBEDDINGS_KEY", ""),
    openai_model="nomic-embed-text",
)
with Memory.open("notes", settings=settings) as memory:
    memory.add("The spare key is with Mrs Okafor", wait=True)
    print(memory.status()["namespaces"]["default"]["vectors"])  # -> 1
