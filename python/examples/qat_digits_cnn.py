"""Quantization-aware training of models/digits_cnn: prepare with Deuteron, train in PyTorch,
compile the result.

    python python/examples/qat_digits_cnn.py [--deuteron build/release/deuteron] [--epochs 2]
    [--output digits_qat.pt2]

Needs torch 2.13 and scikit-learn, which has the images. Prints the accuracy of the float model, of
the trained one with its fake quantization, and of the compiled program.
"""
import argparse
import subprocess
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/digits_cnn"


def digits():
    """Training images and labels; the split is that of models/make_models.py, whose test half is
    MODEL/test.npz."""
    data = load_digits()
    images = torch.from_numpy((data.images / 16.0).astype(np.float32))[:, None]
    images = F.interpolate(images, (16, 16), mode="bilinear", align_corners=False).numpy()
    x, _, y, _ = train_test_split(
        images, data.target.astype(np.int64), test_size=0.3, random_state=0, stratify=data.target
    )
    return torch.from_numpy(x), torch.from_numpy(y)


def accuracy(model):
    test = np.load(MODEL / "test.npz")
    with torch.no_grad():
        outputs = np.concatenate([model(torch.from_numpy(x[None])).numpy() for x in test["input"]])
    return (outputs.argmax(1) == test["label"]).mean()


def train(model, epochs, batch=32, rate=1e-4):
    """Holds the outputs near those of the float model. The export takes one image at a time, so
    gradients are summed over a batch."""
    x, y = digits()
    teacher = torch.export.load(str(MODEL / "float.pt2")).module()
    with torch.no_grad():
        wanted = torch.cat([teacher(image[None]) for image in x])
    optimizer = torch.optim.Adam(model.parameters(), rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * -(-len(x) // batch))
    for epoch in range(epochs):
        total = 0.0
        for pick in torch.randperm(len(x)).split(batch):
            optimizer.zero_grad()
            for i in pick:
                output = model(x[i][None])
                loss = (
                    F.cross_entropy(output, y[i][None]) + F.mse_loss(output, wanted[i][None])
                ) / len(pick)
                loss.backward()
                total += loss.item() * len(pick) / len(x)
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch + 1}: loss {total:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--deuteron", default=str(ROOT / "build/release/deuteron"))
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--output", default="digits_qat.pt2")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    prepared = str(Path(arguments.output).with_suffix(".prepared.pt2"))
    program = str(Path(arguments.output).with_suffix(".pte"))

    subprocess.run(
        [
            arguments.deuteron,
            "qat-prepare",
            str(MODEL / "float.pt2"),
            "--calibrate",
            str(MODEL / "calibration.npz"),
            "-o",
            prepared,
        ],
        check=True,
    )
    model = torch.export.load(prepared).module()
    # ranges stay as calibrated: the average over single images would be too narrow
    model.quantization.observer_on.zero_()
    train(model, arguments.epochs)
    example = (torch.zeros(1, 1, 16, 16),)
    torch.export.save(torch.export.export(model, example), arguments.output)
    subprocess.run([arguments.deuteron, "compile", arguments.output, "-o", program], check=True)
    print(
        (
            f"float model {accuracy(torch.export.load(str(MODEL / 'float.pt2')).module()):.4f},"
            f" trained {accuracy(model):.4f}"
        ),
        flush=True,
    )
    subprocess.run(
        [arguments.deuteron, "eval", program, "--data", str(MODEL / "test.npz")], check=True
    )


if __name__ == "__main__":
    main()
