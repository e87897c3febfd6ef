"""The store for a team: PostgreSQL with pgvector. Needs the extra `postgres`."""
