"""What every method of Memory works with: an open store, a namespace, and the background work on them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from fourfold import addresses
from fourfold import validation as rules
from fourfold.arguments import Owner, checks_arguments
from fourfold.config import Settings, default_store
from fourfold.embed.base import Embedder, EmbeddingModel, completed
from fourfold.engine import keyed
from fourfold.engine.embedding_queue import EmbeddingQueue
from fourfold.engine.maintenance import Maintenance
from fourfold.engine.receipts import Receipts
from fourfold.engine.search import Search
from fourfold.engine.secret_policy import SecretPolicy
from fourfold.errors import InvalidItem, InvalidSetting, MissingExtra, NotFound
from fourfold.model import Item
from fourfold.retrieval import Retriever
from fourfold.storage.protocols import Snapshot, Store, Transaction

IN_MEMORY: Final = ":memory:"


@checks_arguments
class OpenStore:
    def __init__(
        self,
        store: Store,
        embedder: Embedder | EmbeddingModel | None,
        namespace: str = "default",
        settings: Settings | None = None,
        *,
        background: bool = True,
        retrievers: Sequence[Retriever] = (),
    ) -> None:
        settings = settings or Settings()
        self.owner = Owner()
        self.store = store
        self.namespace = rules.name(namespace, "namespace")
        self.settings = settings
        self._secrets = SecretPolicy(settings.secrets)
        self._embedding = EmbeddingQueue(completed(embedder), store) if embedder is not None else None
        self.receipts = Receipts(store, settings.hook_min_confidence, are_kept=settings.receipts)
        self._maintenance = Maintenance(
            store, self._embedding, self.namespace, watch=background, now_and_then=self.receipts.write_due
        )
        self._search = Search(store, self._embedding, settings, self._maintenance.troubles, retrievers)

    @classmethod
    def open(
        cls,
        store: str | Path | Store | None = None,
        *,
        namespace: str | None = None,
        embedder: str | Embedder | EmbeddingModel | None = None,
        settings: Settings | None = None,
        background: bool = True,
        create: bool = True,
        retrievers: Callable[[Store], Sequence[Retriever]] | None = None,
    ) -> Self:
        """Opens a store, and creates it if there is none; without `create` that is a StoreNotFound.

        `store`: a folder, the address of a server, or `:memory:` for a temporary store, removed when it is closed.
        `embedder`: a name, as in the setting `embedder`, or one of your own. `background`: make vectors from the queue
        and publish indexes while this object lives, also for other processes; a short-lived one leaves that to others.
        `retrievers`: makes retrievers of your own for the opened store; one named like a built-in one replaces it.
        """
        settings = settings or Settings()
        name = rules.name(namespace or settings.namespace, "namespace")
        model = _open_embedder(embedder if embedder is not None else settings.embedder, settings)
        if isinstance(store, str) and store == IN_MEMORY:
            from fourfold.storage.sqlite.store import TemporaryStore

            opened: Store = TemporaryStore()
        else:
            opened = open_store(store if store is not None else settings.store, create=create, index=settings.index)
        injected = () if retrievers is None else retrievers(opened)
        memory = cls(opened, model, name, settings, background=background, retrievers=injected)
        memory._maintenance.start()
        return memory

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def within(self, namespace: str) -> Self:
        """The same store, acting on another namespace. It shares everything with this object, and closes with it."""
        view = copy(self)
        view.namespace = rules.name(namespace, "namespace")
        return view

    def close(self) -> None:
        """Stops background work (pending items stay pending), publishes what is due, and releases everything.

        In a forked child it does nothing: what is open belongs to the parent.
        """
        if not self.owner.is_here:
            return
        try:
            self.receipts.write()
            self._maintenance.close()
            self._search.close()
        finally:
            if self._embedding is not None:
                self._embedding.close()
            self.store.close()

    def troubles(self) -> dict[str, str]:
        """Failures of background work, with their reasons; searches report them in their notes."""
        return dict(self._maintenance.troubles)

    # ------------------------------------------------------------ for the methods of Memory

    def _reading(self) -> AbstractContextManager[Snapshot]:
        return self.store.snapshot(self.namespace)

    @contextmanager
    def _writing(self, *, names: bool = False) -> Generator[Transaction]:
        """A transaction; what it makes necessary is done in the background."""
        with self._maintenance.writing(self.namespace), self.store.transaction(self.namespace, names=names) as tx:
            keyed.check(tx)
            yield tx

    def _numbers(self, snapshot: Snapshot, ids: Sequence[int | str]) -> list[int]:
        """Ids as numbers; 0, which no item has, for unknown keys and for numbers that no store could have given."""
        keys = [_key(id) for id in ids if isinstance(id, str)]
        by_key = snapshot.rows.find_keys(keys) if keys else {}
        return [by_key.get(_key(id), 0) if isinstance(id, str) else id if rules.is_whole(id, 1) else 0 for id in ids]

    def _items(self, snapshot: Snapshot, ids: Sequence[int | str]) -> list[Item]:
        """Items and versions by id, or items by "key:K"; NotFound names the first that is missing."""
        numbers = self._numbers(snapshot, ids)
        items = snapshot.rows.get(numbers)
        if missing := [number for number in numbers if number and number not in items]:
            items = items | snapshot.rows.versions(missing)
        for id, number in zip(ids, numbers, strict=True):
            if number not in items:
                raise no_item(id)
        return [items[number] for number in numbers]


def now() -> datetime:
    return datetime.now(UTC)


def no_item(id: int | str) -> NotFound:
    return NotFound(f"no item {id}", "fourfold list shows what is stored")


def _key(id: str) -> str:
    if not id.startswith("key:"):
        raise NotFound(f"{id!r} is not a valid id", "An id is a number, or key:K")
    try:
        return rules.name(id.removeprefix("key:"), "key")
    except InvalidItem as error:
        raise NotFound(f"no item can have that key: {error.message}", "fourfold list shows what is stored") from error


# ---------------------------------------------------------------- opening


def open_store(store: str | Path | Store | None, *, create: bool = True, index: str | None = None) -> Store:
    """Opens a folder or the address of a server; an open store is returned as it is.

    `index`: the address of a distributed index of words and vectors, for a PostgreSQL store.
    """
    if store is not None and not isinstance(store, str | Path):
        return store
    if isinstance(store, str):
        require_lasting(store)
    if isinstance(store, str) and addresses.is_address(store):
        return _open_server(store, create=create, index=index)
    if index is not None:
        raise InvalidSetting("`index` needs a store on PostgreSQL", "Set `store` to postgresql://HOST/DATABASE")
    from fourfold.storage.sqlite.store import SqliteStore

    return SqliteStore(Path(store).expanduser() if store is not None else default_store(), create=create)


def require_lasting(store: str | None) -> None:
    """Refuse a store without a name, and a temporary one where it would be lost at once."""
    if store == "":
        raise InvalidSetting("the store has no name", "Name a folder or an address")
    if store == IN_MEMORY:
        remedy = 'Use a folder; in a Python program, Memory.open(":memory:") keeps a store until it is closed'
        raise InvalidSetting("a store in :memory: is gone when this command or copy ends", remedy)


def _open_server(address: str, *, create: bool, index: str | None) -> Store:
    scheme = addresses.parse(address).scheme
    if scheme not in ("postgresql", "postgres"):
        raise MissingExtra(f"no store for {scheme} is installed", "Use a folder, or postgresql://HOST/DATABASE")
    try:
        from fourfold.storage.postgres.store import PostgresStore
    except ImportError as error:
        raise MissingExtra(
            f"stores on PostgreSQL need psycopg ({error})", "Install it: pip install 'fourfold[postgres]'"
        ) from error
    from fourfold.storage.engines import open_engine

    server = PostgresStore(address, engine=None if index is None else open_engine(index))
    try:
        server.open(create=create)
    except BaseException:
        server.close()
        raise
    return server


def _open_embedder(embedder: str | Embedder | EmbeddingModel, settings: Settings) -> Embedder | EmbeddingModel | None:
    if not isinstance(embedder, str):
        return embedder
    from fourfold.embed import OpenAISettings, create

    return create(
        embedder,
        openai=OpenAISettings(
            base_url=settings.openai_base_url,
            api_key=settings.openai_api_key,
            model=settings.openai_model,
            dimensions=settings.openai_dimensions,
            timeout=settings.openai_timeout,
        ),
        provider=settings.onnx_provider,
    )
