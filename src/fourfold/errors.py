"""Everything Fourfold raises, as one tree.

    FourfoldError
    ├── RequestError            the caller asked for something that cannot be done      exit code 1
    │   ├── InvalidArgument     an argument of the wrong type; a TypeError, too
    │   ├── InvalidQuery        empty or too long query, bad top_k, unknown preset ...
    │   ├── InvalidWeights      unknown name, negative, not finite, sum not 1
    │   ├── InvalidVector       wrong dimension, NaN, infinity, all zero
    │   ├── InvalidItem         nothing to store, too large, text that cannot be stored
    │   ├── InvalidRanking      an injected retriever returned something else than a ranking of items
    │   ├── InvalidSetting      a setting of the wrong type or value, an unknown key
    │   ├── NotFound            no such item, node or raw record
    │   │   └── StoreNotFound   no store in the folder or on the server
    │   ├── Ambiguous           a node name that several labels share
    │   ├── StoreNotEmpty       an export goes into an empty store only
    │   └── SpaceMismatch       the namespace's vectors come from another model
    ├── WorldError              something we depend on said no                          exit code 3
    │   ├── StoreUnavailable    cannot be opened, reached or read
    │   │   └── StoreReplaced   its files were deleted, renamed or replaced while it was open
    │   ├── StoreBusy           another process kept a lock too long
    │   ├── TimedOut            a read took longer than its deadline
    │   ├── StorageFull         no space left
    │   ├── ReadOnlyStore       the folder or file cannot be written
    │   ├── EmbedderUnavailable the model or its endpoint does not answer
    │   ├── MissingExtra        an optional dependency is not installed
    │   └── SearchFailed        every planned retriever failed
    └── DamagedError            the data itself                                         exit code 4
        ├── DamagedStore        the database or an index is corrupt
        └── NewerSchema         written by a newer Fourfold

Every error says what was wrong (`message`) and what to do about it (`remedy`).
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


class EmbedderUnavailable(WorldError): ...


class MissingExtra(WorldError): ...


class SearchFailed(WorldError): ...


class DamagedError(FourfoldError):
    exit_code = 4


class DamagedStore(DamagedError): ...


class NewerSchema(DamagedError): ...
