"""Scores of embeddings before training, with several views, and after re-ranking."""
