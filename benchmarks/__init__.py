"""Measurements, by purpose; run one from the root of the repository: ``python -m benchmarks.speed.losses``.

- ``speed``: time and memory; ``python -m benchmarks.speed`` prints the table of docs/speed.md against peers.
- ``scores``: how good embeddings are: pretrained features, views, re-ranking.
- ``presets``: validation scores that the presets were chosen by.
- ``statistics``: error rates of the verdicts, by simulation.
- ``robustness``: kills at random moments.
"""
