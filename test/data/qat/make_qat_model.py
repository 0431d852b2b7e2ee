"""Makes digits_cnn.pt2, the model of python/examples/qat_digits_cnn.py after its training, and
digits_cnn.npz, PyTorch's output of it for each image of models/digits_cnn/test.npz.

    python make_qat_model.py [DEUTERON]
"""
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent / "pt2"))
from make_pt2_cases import portable  # noqa: E402

deuteron = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/release/deuteron")
subprocess.run(
    [
        sys.executable,
        str(ROOT / "python/examples/qat_digits_cnn.py"),
        "--deuteron",
        deuteron,
        "--output",
        str(HERE / "digits_cnn.pt2"),
    ],
    check=True,
)
model = torch.export.load(str(HERE / "digits_cnn.pt2")).module()
images = np.load(ROOT / "models/digits_cnn/test.npz")["input"]
with torch.no_grad():
    output = np.concatenate([model(torch.from_numpy(image[None])).numpy() for image in images])
np.savez_compressed(HERE / "digits_cnn.npz", output=output)
portable(HERE / "digits_cnn.pt2")
for left in ("digits_cnn.prepared.pt2", "digits_cnn.pte"):
    (HERE / left).unlink()
