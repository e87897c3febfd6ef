"""A Chroma collection as the vectors of a hybrid search, with a keyword index beside it (S2.2, extra `chroma`)."""
