"""Imports and data that every child needs, loaded once in the process that children are forked from."""

from fourfold.text.analysis import analyse
from fourfold.text.language import detect

for text in ("A sentence in English, for its stemmer", "Ein Satz auf Deutsch, mit einem Wasserturm", "lorem ipsum"):
    analyse(text, detect(text))
