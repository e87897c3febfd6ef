from datetime import UTC, datetime, timedelta

from fourfold import Memory, NewItem

now = datetime.now(UTC)
with Memory.open("notes", embedder="none") as memory:
    memory.add(NewItem("We decided that the release is on Friday", created_at=now - timedelta(days=40)))
    memory.add(NewItem("The release: we decided to wait", created_at=now - timedelta(days=2)))

    response = memory.search("What was decided about the release in the last three days?")
    assert response.time_window is not None
    print(response.time_window.words)  # -> in the last three days
    for result in response.results:
        print(result.item.text, result.outside_window)
        # -> The release: we decided to wait False
        # -> We decided that the release is on Friday True
