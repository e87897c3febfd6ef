from fourfold import Memory

password = "-".join(["kranich", "4711", "blau"])
with Memory.open("notes", embedder="none") as memory:
    item = memory.add(f"The database is at postgres://app:{password}@db.internal/orders")
    print(item.text)  # -> The database is at postgres://app:[secret: password in an address]@db.internal/orders
