"""What the measurements of Fourfold alone share: the corpus, a built store, scratch folders, fresh processes."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from compare import CACHE, OURS, build, describe
from corpus import Corpus, prepare_corpus
from engine import PROCESSES
from report import Bar, bars_table

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """One size of the corpus, and where files may be put."""

    cache: Path
    corpus: Corpus

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder that is gone afterwards."""
        with tempfile.TemporaryDirectory(dir=self.cache) as folder:
            yield Path(folder)

    def store(self) -> Path:
        """The store that compare.py builds; built here if it is not there."""
        folder = self.cache / f"{OURS}-{self.corpus.fingerprint}"
        build(OURS, folder, self.corpus, reuse=True)
        return folder

    @contextmanager
    def copied_store(self) -> Iterator[Path]:
        """A copy of it that may be written to."""
        source = self.store()
        with self.scratch() as folder:
            shutil.copytree(source, folder / "store")
            yield folder / "store"


def in_process(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call it in a fresh process, where nothing is loaded yet and nothing stays."""
    with ProcessPoolExecutor(1, PROCESSES) as process:
        return process.submit(work, *args, **kwargs).result()


def options_parser(about: str | None) -> argparse.ArgumentParser:
    """The options that every measurement has."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000, help="how many items the store holds")
    parser.add_argument("--queries", type=int, default=500, help="of the corpus, as compare.py has it")
    parser.add_argument("--cache", type=Path, default=CACHE, help="data folder")
    return parser


def setting_of(options: argparse.Namespace) -> Setting:
    """The corpus that the options ask for, made if it is not there."""
    corpus = prepare_corpus(options.cache, options.items, options.queries)
    describe(corpus)
    return Setting(options.cache, corpus)


def run_alone(about: str | None, measure: Callable[[Setting], list[Bar]]) -> None:
    """Be a command that prints one measurement's bars."""
    print(bars_table(measure(setting_of(options_parser(about).parse_args()))))
