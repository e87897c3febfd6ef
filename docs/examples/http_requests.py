import subprocess
import sys

import httpx

server = subprocess.Popen(
    [sys.executable, "-m", "fourfold", "--store", "notes", "serve", "--port", "0"],
    stderr=subprocess.PIPE,
    text=True,
)
url = server.stderr.readline().split()[3]

with httpx.Client(base_url=f"{url}/v1/namespaces/team") as api:
    stored = api.post("/items", json={"text": "The router is in room 4"}, headers={"Idempotency-Key": "note-1"})
    print(stored.status_code, stored.json()["content"])  # -> 201 The router is in room 4
    place, etag = f"/items/{stored.json()['id']}", stored.headers["etag"]
    changed = api.patch(place, json={"add_tags": ["office"]}, headers={"If-Match": etag})
    print(changed.json()["tags"])  # -> ['office']
    refused = api.patch(place, json={"title": "Router"}, headers={"If-Match": etag})
    print(refused.status_code, refused.json()["remedy"])  # -> 412 Read it again and repeat the change
    found = api.post("/search", json={"query": "router", "filters": {"tags": ["office"]}, "explain": True}).json()
    print(found["results"][0]["snippet"])  # -> The **router** is in room 4
server.terminate()
server.communicate()
