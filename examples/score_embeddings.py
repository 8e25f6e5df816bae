"""Score embeddings from any source: arrays in, metrics out."""

import numpy as np

import levelfield as lf

random = np.random.default_rng(0)
labels = np.repeat(np.arange(50), 8)
centers = random.normal(size=(50, 64))
embeddings = centers[labels] + 1.5 * random.normal(size=(400, 64))

scores = lf.evaluate(
    embeddings, labels, metrics=("precision_at_1", "r_precision", "map_at_r", "recall_at_8", "nmi", "rho")
)
for name, value in scores.items():
    print(f"{name:15} {value:.4f}")
