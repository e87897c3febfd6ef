"""All errors raised by Fourfold.

    FourfoldError
    ├── RequestError            an invalid request                                      exit code 1
    │   ├── InvalidArgument     an argument of the wrong type; also a TypeError
    │   ├── InvalidQuery        empty or too long query, bad top_k, unknown preset ...
    │   ├── InvalidWeights      unknown name, negative, not finite, sum not 1
    │   ├── InvalidVector       wrong dimension, NaN, infinity, all zero
    │   ├── InvalidItem         empty, too large, or text that cannot be stored
    │   ├── InvalidRanking      an injected retriever returned something other than a ranking of items
    │   ├── InvalidSetting      a setting of the wrong type or value, an unknown key
    │   ├── NotFound            no such item, node or raw record
    │   │   └── StoreNotFound   no store in the folder or on the server
    │   ├── NoAccess            the caller's token does not allow it
    │   ├── Conflict            the item was changed since the caller read it
    │   ├── NotOffered          a method of Memory that a server does not have; also an AttributeError
    │   ├── Ambiguous           a node name that several labels share
    │   ├── StoreNotEmpty       an import needs an empty store
    │   └── SpaceMismatch       the namespace's vectors come from another model
    ├── WorldError              a failure of something Fourfold depends on              exit code 3
    │   ├── StoreUnavailable    cannot be opened, reached or read
    │   │   └── StoreReplaced   its files were deleted, renamed or replaced while it was open
    │   ├── StoreBusy           another process held a lock too long
    │   ├── TimedOut            a read took longer than its deadline
    │   ├── StorageFull         no space left
    │   ├── ReadOnlyStore       the folder or file cannot be written
    │   ├── IndexUnavailable    the distributed index does not answer
    │   ├── EmbedderUnavailable the model or its endpoint does not answer
    │   ├── RerankerUnavailable the reranking model or its endpoint does not answer
    │   ├── MissingExtra        an optional dependency is not installed; also an ImportError
    │   └── SearchFailed        every planned retriever failed
    └── DamagedError            a problem with the data                                 exit code 4
        ├── DamagedStore        the database or an index is corrupt
        └── NewerSchema         written by a newer Fourfold

Every error has a `message` that says what is wrong, and a `remedy` that says what to do.
"""


class FourfoldError(Exception):
    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        self.message = message
        self.remedy = remedy
        super().__init__(f"{message}. {remedy}" if remedy else message)


class RequestError(FourfoldError):
    exit_code = 1


class InvalidArgument(RequestError, TypeError): ...


class InvalidQuery(RequestError): ...


class InvalidWeights(RequestError): ...


class InvalidVector(RequestError): ...


class InvalidItem(RequestError): ...


class InvalidRanking(RequestError): ...


class InvalidSetting(RequestError): ...


class NotFound(RequestError): ...


class StoreNotFound(NotFound): ...


class NoAccess(RequestError): ...


class Conflict(RequestError): ...


class NotOffered(RequestError, AttributeError): ...


class Ambiguous(RequestError): ...


class StoreNotEmpty(RequestError): ...


class SpaceMismatch(RequestError): ...


class WorldError(FourfoldError):
    exit_code = 3


class StoreUnavailable(WorldError): ...


class StoreReplaced(StoreUnavailable): ...


class StoreBusy(WorldError): ...


class TimedOut(WorldError): ...


class StorageFull(WorldError): ...


class ReadOnlyStore(WorldError): ...


class IndexUnavailable(WorldError): ...


class EmbedderUnavailable(WorldError): ...


class RerankerUnavailable(WorldError): ...


class MissingExtra(WorldError, ImportError): ...


class SearchFailed(WorldError): ...


class DamagedError(FourfoldError):
    exit_code = 4


class DamagedStore(DamagedError): ...


class NewerSchema(DamagedError): ...
