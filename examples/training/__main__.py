"""`python -m examples.training [--device cuda]`: fits a curve with a model whose normalisation is a kernel, forward and backward, compiled or not."""

import argparse

import torch

from .norm import HIDDEN, rms_norm


class Model(torch.nn.Module):
    """Two layers with a normalisation between them."""

    def __init__(self) -> None:
        super().__init__()
        self.rise = torch.nn.Linear(1, HIDDEN)
        self.weight = torch.nn.Parameter(torch.ones(1, HIDDEN))
        self.fall = torch.nn.Linear(HIDDEN, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fall(rms_norm(torch.tanh(self.rise(x)), self.weight))


def train(model: torch.nn.Module, steps: int = 200) -> tuple[float, float]:
    """Fit a sine; the error before and after."""
    x = torch.linspace(-3, 3, 97).unsqueeze(1)
    wanted = torch.sin(2 * x)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses: list[float] = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[0], losses[-1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m examples.training", description=__doc__)
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, …")
    torch.set_default_device(parser.parse_args().device)
    torch.manual_seed(0)
    first, last = train(Model())
    print(f"mean squared error {first:.3f} before, {last:.4f} after 200 steps")
    assert last < 0.1 * first
