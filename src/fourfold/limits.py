"""All limits of the engine. docs/reference-limits.md describes what happens beyond each."""

from dataclasses import dataclass

QUERY_BYTES = 32 * 1024
"""Maximum size of a query (InvalidQuery)."""
QUERY_TERMS = 64
"""Maximum number of terms in a keyword search; the rarest are used, and a note says so."""
MODEL_TOKENS = 256
"""Number of tokens of a text that the built-in model reads."""
WINDOWS = 64
"""Maximum number of vectors of one item: what follows in its text has none, and searches say so."""
TOP_K = 100
"""Maximum number of results of a search."""
CANDIDATES = 200
"""Length of every retriever's list, whatever top_k is, so that the first k results do not depend on top_k."""
RERANKED = 20
"""Number of the best candidates that a reranker reads, if its time allows."""
ITEM_BYTES = 1024 * 1024
"""Maximum size of an item's title and text together (InvalidItem)."""
METADATA_BYTES = 64 * 1024
"""Maximum size of an item's metadata as JSON (InvalidItem)."""
METADATA_DEPTH = 64
"""Maximum nesting of lists and mappings in metadata and properties (InvalidItem)."""
NAME_BYTES = 1024
"""Maximum size of a key, tag, kind, path, node name or alias (InvalidItem)."""
TAGS = 64
"""Maximum number of tags of an item (InvalidItem)."""
ALIASES = 64
"""Maximum number of aliases of a node (InvalidItem)."""
FILTER_BYTES = 8 * 1024
"""Maximum size of a filter as text (InvalidQuery)."""
FILTER_DEPTH = 16
"""Maximum nesting of `and`, `or` and `not`, and of lists in a value (InvalidQuery)."""
FILTER_TESTS = 200
"""Maximum number of comparisons in a filter (InvalidQuery)."""
FILTER_VALUES = 1000
"""Maximum number of values in a filter, such as those of `in` (InvalidQuery)."""
LARGEST_ID = 2**53 - 1
"""The largest integer that all JSON parsers read exactly."""
FILE_BYTES = 10 * 1024 * 1024
"""Maximum size of a file to index; a larger one is skipped and named in the summary."""
PACKED_FILE_BYTES = 64 * 1024 * 1024
"""Maximum size of a file in a compressed format, such as PDF."""
IMPORT_BYTES = 256 * 1024 * 1024
"""Maximum size of a file of another tool that is imported, and of what an archive unpacks to (InvalidItem)."""
SMALL_FILE_BYTES = 16 * 1024 * 1024
"""Maximum size of a file of settings, of presets or of a vector, and of stdin (InvalidSetting, ...)."""
FOLDER_DEPTH = 100
"""Maximum depth of folders; deeper ones are skipped and named."""
READ_CPU_SECONDS = 2.0
"""CPU time for reading one file; a file that needs more is skipped and named."""
READ_CPU_SECONDS_PER_MB = 2.0
"""CPU time added for every MB of the file."""
READ_MEMORY_BYTES = 512 * 1024 * 1024
"""Maximum address space of the process that reads files."""
SESSION_PROPOSALS = 10
"""Maximum number of proposals from one session; of more, the most confident are kept."""
SOURCES = 1000
"""Maximum number of source_ids of an item (InvalidItem)."""
FOLD_DEPTH = 50
"""Number of best hits in which copies of a text in other files are folded into one result."""
WALK_STARTS = 10
"""Number of best hits of semantic and keyword together from which the graph walk of `auto` starts."""
HUB = 100
"""A name that belongs to more items, or that more items mention, leads to none of them; of a node's edges, this many of
the heaviest are followed."""
WALK_EDGES = 500
"""Maximum number of edges followed in one search, heaviest first."""
RETRIEVER_SECONDS = 2.0
"""Deadline of a retriever; a late one is named in `degraded`."""
MODEL_LOAD_SECONDS = 15.0
"""Maximum time a search waits for the model to load, before it answers without vectors."""
BUSY_SECONDS = 10.0
"""Maximum time a write waits for another process's transaction (StoreBusy)."""
READ_SECONDS = 30.0
"""Deadline of reads other than searches: a page of items, a walk through the graph (TimedOut)."""
LEASE_SECONDS = 30.0
"""Maximum time `repair` waits for another process that works on the indexes (StoreBusy)."""
TAG_CACHE_SECONDS = 60.0
"""Maximum age of the cached list of tags."""
HTTP_BODY_BYTES = 4 * 1024 * 1024
"""Maximum size of an HTTP request's body (answered with 413)."""
HTTP_CONNECTIONS = 512
"""Maximum number of open connections of an HTTP server, or half of the process's file descriptors if that is less.
Beyond it, a connection without a complete request is closed; if there is none, the new connection gets 503."""
HTTP_HEADERS = 100
"""Maximum number of headers of a request (answered with 431)."""
HTTP_HEADER_BYTES = 16 * 1024
"""Maximum size of a request's headers (answered with 400 or 431)."""
HTTP_HEADER_SECONDS = 10.0
"""Time to send a request's headers, from the connection or the previous response on."""
HTTP_CHUNKS = 256
"""Maximum number of chunks of a request's body, plus one for each KiB of it (answered with 400)."""
HTTP_BODY_SECONDS = 30.0
"""Time to send a request's body (answered with 408)."""
HTTP_STALL_SECONDS = 30.0
"""A client that reads less than 64 KiB of a response in this time is disconnected."""
ANSWER_TOKENS = 50_000
"""Maximum `max_tokens` of a response of the MCP server (InvalidQuery)."""
ANSWER_BYTES = 1024 * 1024
"""Maximum size of any response of the MCP server, including resources (InvalidQuery)."""
HTTP_ANSWER_BYTES = 32 * 1024 * 1024
"""Maximum size of a JSON answer of the HTTP API: a page ends earlier, a search leaves texts out (else InvalidQuery)."""
ANSWER_ROWS = 100
"""Maximum number of memories, neighbours or raw records in a response of the MCP server; see `offset` for more."""
VECTOR_DIMENSIONS = 8192
"""Maximum dimension of a vector (InvalidVector)."""
NEIGHBOR_DEPTH = 5
PATH_DEPTH = 10
PAGE_SIZE = 1000
"""Maximum number of rows in a page of `list`."""
VERSIONS = 20
"""Earlier versions of an item that are kept; older ones are removed by further updates."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits of an HTTP server on connections and requests."""

    connections: int = HTTP_CONNECTIONS
    header_count: int = HTTP_HEADERS
    header_bytes: int = HTTP_HEADER_BYTES
    header_seconds: float = HTTP_HEADER_SECONDS
    body_seconds: float = HTTP_BODY_SECONDS
    stall_seconds: float = HTTP_STALL_SECONDS


def cpu_seconds_for(file_bytes: int) -> float:
    """CPU time for reading a file of this size."""
    return READ_CPU_SECONDS + READ_CPU_SECONDS_PER_MB * file_bytes / (1024 * 1024)
