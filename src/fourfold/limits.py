"""Every limit of the engine, in one place. What happens one past each is in docs/reference.md."""

from dataclasses import dataclass

QUERY_BYTES = 32 * 1024
"""A longer query is refused (InvalidQuery)."""

QUERY_TERMS = 64
"""Keyword search uses this many of a query's rarest terms; a note says so."""

MODEL_TOKENS = 256
"""The built-in model reads this many tokens of a text."""

TOP_K = 100
"""Results of one search: 1 to this."""

CANDIDATES = 200
"""Every retriever lists this many, whatever top_k is, so that results for k are a prefix of those for k + n."""

ITEM_BYTES = 1024 * 1024
"""Title and text of one item (InvalidItem)."""

METADATA_BYTES = 64 * 1024
"""Metadata of one item as JSON (InvalidItem)."""

METADATA_DEPTH = 64
"""Lists and maps inside each other in metadata and properties (InvalidItem)."""

NAME_BYTES = 1024
"""A key, tag, kind, path, node name or alias (InvalidItem)."""

TAGS = 64
"""Tags of one item (InvalidItem)."""

ALIASES = 64
"""Aliases of one node (InvalidItem)."""

FILTER_BYTES = 8 * 1024
"""A filter as text (InvalidQuery)."""

FILTER_DEPTH = 16
"""Levels of `and`, `or` and `not`, and of lists in a value (InvalidQuery)."""

FILTER_TESTS = 200
"""Comparisons of one filter (InvalidQuery)."""

FILTER_VALUES = 1000
"""Values of one filter, such as those of `in` (InvalidQuery)."""

LARGEST_ID = 2**53 - 1
"""Every reader of JSON keeps a number up to this exactly."""

FILE_BYTES = 10 * 1024 * 1024
"""A larger file is left out of an index, and named in the summary."""

PACKED_FILE_BYTES = 64 * 1024 * 1024
"""The same for formats that hold compressed parts, such as PDF."""

FOLDER_DEPTH = 100
"""Folders below folders; what is deeper is left out and named."""

READ_CPU_SECONDS = 2.0
"""Processor time for reading one file, whatever its format; a file that needs more is left out and named."""

READ_CPU_SECONDS_PER_MB = 2.0
"""Added to that for every MB of the file."""

READ_MEMORY_BYTES = 512 * 1024 * 1024
"""Address space of the process that reads files."""

SOURCES = 1000
"""source_ids of one item (InvalidItem)."""

FOLD_DEPTH = 50
"""Files' chunks with the same text are folded into one result, which lists the copies among this many best hits."""

EXPAND_SEEDS = 10
"""The graph walk of `auto` starts from this many of the best hits of semantic and keyword together."""

HUB = 100
"""A name of more items than this, or that more items mention, leads to none of them; a node's heaviest edges count."""

WALK_EDGES = 500
"""Edges followed from the nodes of one search, heaviest first."""

RETRIEVER_SECONDS = 2.0
"""A retriever that has not answered by then is named in `degraded`."""

MODEL_LOAD_SECONDS = 15.0
"""A search waits this long for the model's first load, then answers without vectors."""

BUSY_SECONDS = 10.0
"""How long a write waits for another process's transaction."""

READ_SECONDS = 30.0
"""Any other read of a store: a page of items, a walk through the graph (TimedOut)."""

LEASE_SECONDS = 30.0
"""How long `repair` waits for another process's work on the indexes (StoreBusy)."""

TAG_CACHE_SECONDS = 60.0
"""S5.6: the list of tags is kept at most this long."""

HTTP_BODY = 4 * 1024 * 1024
"""Bytes of one request over HTTP (answered with 413)."""

HTTP_CONNECTIONS = 512
"""Open connections of an HTTP server, or half of the process's file descriptors if that is less. Past it, a connection
without a complete request is closed for the new one; if all of them are being answered, the new one gets 503."""

HTTP_HEADERS = 100
"""Headers of one request (answered with 431)."""

HTTP_HEADER_BYTES = 16 * 1024
"""Bytes of a request's headers (answered with 400 or 431)."""

HTTP_HEADER_SECONDS = 10.0
"""The time to send a request's headers, counted from the connection or the previous answer."""

HTTP_CHUNKS = 256
"""Chunks of a request's body, and one more for each KiB of it (answered with 400): tiny chunks cost CPU time."""

HTTP_BODY_SECONDS = 30.0
"""The time to send a request's body (answered with 408)."""

HTTP_STALL_SECONDS = 30.0
"""A client that reads less than 64 KiB of an answer in this time is disconnected."""

ANSWER_TOKENS = 50_000
"""The largest `max_tokens` of an answer of the MCP server (InvalidQuery)."""

ANSWER_BYTES = 1024 * 1024
"""Any answer of the MCP server, resources too; what would be longer is refused (InvalidQuery)."""

ANSWER_ROWS = 100
"""Memories, neighbours or raw records of one answer of the MCP server; the others come with `offset`."""

VECTOR_DIMENSIONS = 8192
"""The largest vector that a namespace takes (InvalidVector)."""

NEIGHBOR_DEPTH = 5
PATH_DEPTH = 10
PAGE_SIZE = 1000
"""Rows of one page of `list`."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """The limits of one HTTP server before a request is accepted."""

    connections: int = HTTP_CONNECTIONS
    header_count: int = HTTP_HEADERS
    header_bytes: int = HTTP_HEADER_BYTES
    header_seconds: float = HTTP_HEADER_SECONDS
    body_seconds: float = HTTP_BODY_SECONDS
    stall_seconds: float = HTTP_STALL_SECONDS


def cpu_seconds_for(file_bytes: int) -> float:
    """Processor time for reading a file of this size."""
    return READ_CPU_SECONDS + READ_CPU_SECONDS_PER_MB * file_bytes / (1024 * 1024)
