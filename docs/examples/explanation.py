from fourfold import Memory, NewItem

with Memory.open("notes", embedder="none") as memory:
    memory.add(NewItem("Postgres with two replicas", title="Kestrel", tags=("database",)))
    memory.add(NewItem("Takes orders and sends invoices", title="Checkout"))
    memory.add_edge("Checkout", "depends on", "Kestrel")

    response = memory.search("Which database is Kestrel?", explain=True)
    for result in response.results:
        assert result.score == sum(line.value for line in result.contributions) * result.recency
        assert result.explanation is not None
        print(result.item.title, [line.description.partition(":")[0] for line in result.explanation.details])
        # -> Kestrel ['keyword', 'graph', 'tags']
        # -> Checkout ['graph', 'walk']

    why = memory.why(2, "Which database is Kestrel?")
    print(why.rank, why.reasons[1])  # -> 2 keyword: the item contains none of the query's words
