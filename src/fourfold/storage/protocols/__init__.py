"""What the engine asks of storage. One conformance suite (tests/conformance) runs over every implementation.

A search reads one `Snapshot` of one namespace; a write is one `Transaction`. Each protocol below is small, and an
engine implements only those that it can: a distributed index is `Words` and `Vectors`, a store is all of them.
Isolation: nothing of one namespace, no row and no statistic, reaches another. A namespace is created by the first write
that stores something in it. Reading one that does not exist finds nothing.
Durability: when the block of a transaction has ended, its effect survives the death of the process and, on the stores
that say so, of the machine. It happens as a whole or not at all. A snapshot that is opened after a commit, in any
process, sees it.
Threads: everything here blocks. A store may be used by any number of threads; a snapshot or a transaction belongs to
the thread that opened it.
Errors: a wrong argument is a RequestError; a failure of the disk, the server or another process is a WorldError or a
DamagedError. A read that exceeds its time is TimedOut.
"""

from fourfold.storage.protocols.reading import Graph, RawRecords, Rows, Snapshot, Tags, Vectors, Words
from fourfold.storage.protocols.store import Maintenance, Portable, Store
from fourfold.storage.protocols.writing import FileWriter, GraphWriter, ItemWriter, RawWriter, Transaction, VectorWriter

__all__ = [
    "FileWriter",
    "Graph",
    "GraphWriter",
    "ItemWriter",
    "Maintenance",
    "Portable",
    "RawRecords",
    "RawWriter",
    "Rows",
    "Snapshot",
    "Store",
    "Tags",
    "Transaction",
    "VectorWriter",
    "Vectors",
    "Words",
]
