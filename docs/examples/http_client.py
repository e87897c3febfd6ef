import subprocess
import sys

import fourfold
from fourfold import NewItem

server = subprocess.Popen(
    [sys.executable, "-m", "fourfold", "--store", "notes", "serve", "--port", "0"],
    stderr=subprocess.PIPE,
    text=True,
)
url = server.stderr.readline().split()[3]

with fourfold.connect(url) as memory:  # instead of Memory.open("notes")
    memory.add(NewItem("The router's password is in the blue folder", tags=("office",)), wait=True)
    response = memory.search("how do I get into the network?")
    print(response.results[0].item.text)  # -> The router's password is in the blue folder
    print(memory.tags())  # -> [('office', 1)]
server.terminate()
server.communicate()
