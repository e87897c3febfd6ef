"""Evaluation on the user's own questions: collections, runs, metrics, comparisons, tuning."""
