"""Files crafted to make a parser slow or exhaust its memory."""

import zlib
from typing import Protocol

from files_support import made_pdf

MOST_BYTES = 1 << 20


class Full(Protocol):
    def __call__(self, pattern: str, before: str = "", after: str = "") -> bytes: ...


def crafted(size: int = MOST_BYTES) -> dict[str, bytes]:
    """File name to content of at most, and mostly nearly, `size` bytes."""

    def full(pattern: str, before: str = "", after: str = "") -> bytes:
        """The pattern, again and again."""
        encoded, *around = (part.encode("utf-8", "surrogatepass") for part in (pattern, before, after))
        return around[0] + encoded * ((size - len(around[0]) - len(around[1])) // len(encoded)) + around[1]

    return {
        **_markdown(full), **_front_matter(full), **_html(full, size), **_code(full), **_plain(full), **_packed(size),
    }  # fmt: skip


def _markdown(full: Full) -> dict[str, bytes]:
    return {
        "heading-spaces.md": full(" ", "# a", "b"), "heading-marks.md": full("# ", "# a "),
        "headings.md": full("# a\n"), "heading-depths.md": full("# a\n## b\n### c\n#### d\n##### e\n###### f\n"),
        "underlines.md": full("a\n===\n"), "underline-long.md": full("=", "a\n", "x"), "fences.md": full("```\n"),
        "fence-tildes.md": full("~"), "link-openings.md": full("[a]("), "heading-links.md": full("[a](b", "# "),
        "wiki-links.md": full("[["), "code-marks.md": full("`a "), "tags.md": full("#a1b2c3 "),
        "tag-one.md": full("a", "#"), "hashes.md": full("#"), "newlines.md": full("\n"), "spaces.md": full(" "),
        "quotes.md": full("> "), "brackets.md": full("["), "parentheses.md": full("]("),
        "many-tags.md": full(" ".join(f"#t{number}" for number in range(1000)) + " "), "surrogates.md": full("\ud800"),
    }  # fmt: skip


def _front_matter(full: Full) -> dict[str, bytes]:
    def front(yaml: str) -> bytes:
        return f"---\n{yaml}\n---\ntext\n".encode()

    tags = ", ".join(f"t{number:0>900}" for number in range(60))
    return {
        "front-brackets.md": front("a: " + "[" * 60_000),
        "front-braces.md": front("a: " + "{" * 60_000),
        "front-dashes.md": front("- " * 30_000),
        "front-questions.md": front("? " * 30_000),
        "front-bool.md": front("a: !!bool foo"),
        "front-int.md": front('a: !!int ""'),
        "front-time.md": front("a: !!timestamp foo"),
        "front-aliases.md": front("\n".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 2000))),
        "front-digits.md": front("a: " + "9" * 60_000),
        "front-base-60.md": front("a: 1" + ":59" * 20_000),
        "front-keys.md": full("words\n", front("\n".join(f"k{n}: {n}" for n in range(5000))).decode()),
        "front-tags.md": full("text ", front(f"tags: [{tags}]").decode()),
    }


def _html(full: Full, size: int) -> dict[str, bytes]:
    return {
        "tags-open.html": full("<a "), "tags-nested.html": full("<div>"),
        "tags-links.html": b"<a>x" * (size // 8) + b"</a>" * (size // 8),
        "tags-silent.html": b"<nav>" * (size // 11) + b"</svg>" * (size // 11), "tags-quotes.html": full("<a b='"),
        "tags-comments.html": full("<!--"), "tags-declarations.html": full("<!a"),
        "tags-scripts.html": full("<script>"), "references.html": full("9", "&#", ";"),
        "references-many.html": full("&amp"), "less.html": full("<"), "attributes.html": full("a ", "<a ", ">"),
        "titles.html": full("<title>"), "preformatted.html": full("<pre>\n"),
    }  # fmt: skip


def _code(full: Full) -> dict[str, bytes]:
    return {
        "generics.java": full("a<"),
        "quotes.java": full("a‹"),
        "templates.cpp": full("a<"),
        "quotes.cpp": full("a‹"),
        "fstrings-joined.py": full("f'{a}' "),
        "fstrings.py": full("f'{"),
        "parentheses.py": full("("),
        "classes.py": "".join(" " * depth + f"class C{depth}:\n" for depth in range(95)).encode(),
        "operators.py": full("-", "x = ", "1"),
        "strings.js": full("`${"),
        "pointers.c": full("*", "int ", "a;"),
        "blocks.rs": full("{"),
        "types.ts": full("a<b["),
        "braces.go": full("func("),
        "comments.c": full("// a\n"),
    }


def _plain(full: Full) -> dict[str, bytes]:
    return {"one-line.txt": full("x"), "spaces.txt": full(" ", "a", "b"), "lines.txt": full("a\n")}


def _packed(size: int) -> dict[str, bytes]:
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(b"BT (x) Tj ET " * 80_000) for _ in range(size // 2700)) + packer.flush()
    return {
        "bomb.pdf": made_pdf("x", stream=bomb),
        "nested.pdf": b"%PDF-1.4\n1 0 obj\n" + b"[" * (size - 100),
        "pages.pdf": made_pdf(*["words " * 100] * (size // 700)),
        "encoding.txt": bytes(range(128, 256)) * (size // 128),
        "encoding.html": b"<meta charset=punycode>" + b"\xff" * (size // 2),
        "bom.txt": b"\xff\xfe" + b"\x00\xd8" * (size // 2 - 1),
    }
