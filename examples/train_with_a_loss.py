"""Use a loss and a miner in your own training loop."""

import torch

import levelfield as lf

generator = torch.Generator().manual_seed(0)
labels = torch.arange(16).repeat_interleave(4)
inputs = torch.randn(64, 32, generator=generator)
network = torch.nn.Linear(32, 16)
optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)

loss = lf.losses.Triplet(margin=0.2)
miner = lf.miners.Semihard()

for step in range(50):
    embeddings = torch.nn.functional.normalize(network(inputs))
    value = loss(embeddings, labels, miner(embeddings, labels))
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step:3}  loss {value.item():.4f}")
