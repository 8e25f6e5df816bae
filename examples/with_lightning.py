"""A loss, a miner and a batch sampler in PyTorch Lightning, scored on classes that were not trained on."""

import warnings

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

import levelfield as lf

warnings.filterwarnings("ignore", module="lightning")


class Epochs:
    """Hands a DataLoader the batches of one epoch after the other."""

    def __init__(self, sampler):
        self.sampler, self.number = sampler, 0

    def __len__(self):
        return sum(1 for _ in self.sampler.epoch(0))

    def __iter__(self):
        batches = self.sampler.epoch(self.number)
        self.number += 1
        return (rows.tolist() for rows in batches)


class MetricLearner(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
        self.loss = lf.losses.create("margin", beta=1.2)  # it owns its boundary, which learns too
        self.miner = lf.miners.create("distance_weighted")

    def training_step(self, batch, _):
        inputs, labels = batch
        embeddings = torch.nn.functional.normalize(self.network(inputs))
        return self.loss(embeddings, labels, self.miner(embeddings, labels))

    def configure_optimizers(self):
        rates = [
            {"params": self.network.parameters(), "lr": 3e-3},
            {"params": self.loss.parameters(), "lr": 5e-4},
        ]
        return torch.optim.Adam(rates)

    @torch.inference_mode()
    def score(self, inputs, labels):
        return lf.metrics.evaluate(self.eval().network(inputs), labels, metrics=("map_at_r",))["map_at_r"]


def made_up_data(classes, seed):
    """Classes differ in 8 of 32 inputs; the rest is noise that a good embedding leaves out."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(8)
    inputs = 2 * torch.randn(len(labels), 32, generator=generator)
    inputs[:, :8] = torch.randn(classes, 8, generator=generator)[labels]
    inputs[:, :8] += 0.3 * torch.randn(len(labels), 8, generator=generator)
    return inputs, labels


if __name__ == "__main__":
    lightning.seed_everything(0, verbose=False)
    inputs, labels = made_up_data(classes=40, seed=0)
    unseen = made_up_data(classes=20, seed=1)
    sampler = lf.batches.create("class_balanced", labels.numpy(), batch_size=32, samples_per_class=4, seed=0)
    loader = DataLoader(TensorDataset(inputs, labels), batch_sampler=Epochs(sampler))
    model = MetricLearner()
    print(f"MAP@R of unseen classes before: {model.score(*unseen):.3f}")
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(max_epochs=15, accelerator="cpu", enable_model_summary=False, **quiet)
    trainer.fit(model.train(), loader)
    print(f"MAP@R of unseen classes after:  {model.score(*unseen):.3f}")
