"""Use a loss, a miner and a batch sampler with PyTorch Lightning; score classes that were not trained on."""

import warnings

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

import levelfield as lf

warnings.filterwarnings("ignore", module="lightning")


class MetricLearner(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
        self.loss = lf.losses.Margin(beta=1.2)  # beta is a trained parameter
        self.miner = lf.miners.DistanceWeighted()

    def on_train_epoch_start(self):
        self.trainer.train_dataloader.batch_sampler.set_epoch(self.current_epoch)  # new batches in each epoch

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
        return lf.evaluate(self.eval().network(inputs), labels, metrics=("map_at_r",))["map_at_r"]


def made_up_data(classes, seed):
    """Return inputs and labels; classes differ in 8 of 32 inputs, the rest is noise."""
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
    sampler = lf.samplers.MPerClass(labels, batch_size=32, samples_per_class=4, seed=0)
    loader = DataLoader(TensorDataset(inputs, labels), batch_sampler=sampler)
    model = MetricLearner()
    print(f"MAP@R of unseen classes before: {model.score(*unseen):.3f}")
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(max_epochs=15, accelerator="cpu", enable_model_summary=False, **quiet)
    trainer.fit(model.train(), loader)
    print(f"MAP@R of unseen classes after:  {model.score(*unseen):.3f}")
