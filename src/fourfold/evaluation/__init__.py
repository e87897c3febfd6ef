"""Measuring on anyone's questions: collections, runs, metrics, comparisons, sweeps."""
