"""Helpers of tests of folders."""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fourfold import Item, Memory
from fourfold.ingest.sync import IndexReport


def write(root: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def index(memory: Memory, tree: Path, files: Mapping[str, str | bytes], **options: Any) -> IndexReport:
    """Writes the files and indexes their folder."""
    write(tree, files)
    return memory.index_folders([tree], **options)


def items(memory: Memory) -> dict[tuple[str, int], Item]:
    """Items by file name and chunk number."""
    found = memory.list(limit=1000)
    return {(Path(item.path or "").name, item.chunk_index or 0): item for item in found}


def names(memory: Memory) -> set[str]:
    return {name for name, _ in items(memory)}


def made_pdf(*pages: str, stream: bytes | None = None) -> bytes:
    """A small PDF, written by hand; `stream` replaces the content of the last page."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids: list[bytes] = []
    for place, text in enumerate(pages):
        packed = zlib.compress(f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode("latin-1"))
        if stream is not None and place == len(pages) - 1:
            packed = stream
        content = b"<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (len(packed), packed)
        objects += [content, b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
                    b"/Resources << /Font << /F1 3 0 R >> >> >>" % (len(objects) + 1)]  # fmt: skip
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    out, places = b"%PDF-1.4\n", list[int]()
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(out)
    head = b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\n" % (
        len(objects) + 1, table, len(objects) + 1,
    )  # fmt: skip
    return out + head + b"startxref\n%d\n%%%%EOF" % start
