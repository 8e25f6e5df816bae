"""Use a loss and a batch sampler with Hugging Face Accelerate; score classes that were not trained on."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

import levelfield as lf


def made_up_data(classes, seed):
    """Return inputs and labels; classes differ in 8 of 32 inputs, the rest is noise."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(8)
    inputs = 2 * torch.randn(len(labels), 32, generator=generator)
    inputs[:, :8] = torch.randn(classes, 8, generator=generator)[labels]
    inputs[:, :8] += 0.3 * torch.randn(len(labels), 8, generator=generator)
    return inputs, labels


@torch.inference_mode()
def score(network, inputs, labels):
    return lf.evaluate(network(inputs), labels, metrics=("map_at_r",))["map_at_r"]


if __name__ == "__main__":
    set_seed(0)
    inputs, labels = made_up_data(classes=40, seed=0)
    unseen = made_up_data(classes=20, seed=1)
    sampler = lf.samplers.MPerClass(labels, batch_size=32, samples_per_class=4, seed=0)
    loader = DataLoader(TensorDataset(inputs, labels), batch_sampler=sampler)
    network = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
    loss = lf.losses.ProxyAnchor(num_classes=40, embedding_size=16)
    rates = [{"params": network.parameters(), "lr": 3e-3}, {"params": loss.parameters(), "lr": 3e-2}]
    optimizer = torch.optim.Adam(rates)

    accelerator = Accelerator(cpu=True)
    network, loss, optimizer, loader = accelerator.prepare(network, loss, optimizer, loader)
    print(f"MAP@R of unseen classes before: {score(network, *unseen):.3f}")
    for epoch in range(15):
        sampler.set_epoch(epoch)
        for batch, targets in loader:
            value = loss(torch.nn.functional.normalize(network(batch)), targets)
            optimizer.zero_grad()
            accelerator.backward(value)
            optimizer.step()
    print(f"MAP@R of unseen classes after:  {score(network, *unseen):.3f}")
