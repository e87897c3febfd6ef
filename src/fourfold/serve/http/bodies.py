"""Bodies of requests: JSON in memory, everything else in a file while it arrives."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from starlette.requests import ClientDisconnect, Request

from fourfold import owner_only
from fourfold.serve.http.problems import HttpError

SPOOLED_BYTES: Final = 1 << 30
"""Maximum size of a body that is written into a file (answered with 413)."""
_PART_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Body:
    content: bytes = b""
    file: Path | None = None
    file_digest: bytes = b""

    @property
    def digest(self) -> bytes:
        return self.file_digest or sha256(self.content).digest()


@asynccontextmanager
async def received(request: Request) -> AsyncGenerator[Body]:
    yield Body(await request.body())


@asynccontextmanager
async def spooled(request: Request) -> AsyncGenerator[Body]:
    """The body as a file that is removed at the end of the block.

    The file is open only while a part is written: bodies that stall hold no file descriptors.
    """
    with tempfile.TemporaryDirectory(prefix="fourfold-") as folder:
        file, size, digest, waiting = Path(folder) / "body", 0, sha256(), bytearray()
        try:
            async for part in request.stream():
                size += len(part)
                if size > SPOOLED_BYTES:
                    raise HttpError(413, "the request is too large", f"Send at most {SPOOLED_BYTES >> 20} MiB at once")
                digest.update(part)
                waiting += part
                if len(waiting) >= _PART_BYTES:
                    await asyncio.to_thread(_append, file, waiting)
                    waiting = bytearray()
        except ClientDisconnect as error:
            raise HttpError(400, "the request ended before its body was complete", "Send it again") from error
        await asyncio.to_thread(_append, file, waiting)
        yield Body(file=file, file_digest=digest.digest())


def _append(file: Path, part: bytes | bytearray) -> None:
    with owner_only.open_file(file, "ab") as target:
        target.write(part)
