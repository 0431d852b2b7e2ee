"""Records cases of kernels: each names a kernel, its arguments in the order of the operator's
schema, and the outputs that PyTorch gives. Equal tensors are stored once, in logical order."""
import json
import pathlib

import numpy as np
import torch


class Recorder:
    def __init__(self, prefix, seed):
        """prefix: of the tensors' names."""
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self._prefix = prefix
        self._arrays, self._names, self._cases = {}, {}, []

    def tensor(self, value):
        array = value.detach().contiguous().numpy()
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._names:
            self._names[key] = f"{self._prefix}{len(self._arrays)}"
            self._arrays[self._names[key]] = array
        return self._names[key]

    def argument(self, value):
        if value is None:
            return None
        if isinstance(value, torch.Tensor):
            return {"tensor": self.tensor(value)}
        if isinstance(value, bool):
            return {"bool": value}
        if isinstance(value, str):
            return {"string": value}
        if isinstance(value, (list, tuple)):
            if any(isinstance(v, torch.Tensor) for v in value):
                return {"tensors": [None if v is None else self.tensor(v) for v in value]}
            return {"doubles" if value and isinstance(value[0], float) else "ints": list(value)}
        if value == float("inf"):
            return {"infinite": True}  # JSON has no number for it
        return {"int" if isinstance(value, int) else "double": value}

    def case(self, name, kernel, arguments, *outputs, tolerance=0.0, **more):
        """tolerance: of the largest magnitude of the output; 0 means bit for bit. listed=True: the
        outputs are one argument, a list; written=True: the first argument is what is written."""
        self._cases.append(
            {
                "name": name,
                "kernel": kernel if "::" in kernel else f"aten::{kernel}",
                "arguments": [self.argument(a) for a in arguments],
                "outputs": [self.tensor(o) for o in outputs],
                "tolerance": tolerance,
                **more,
            }
        )

    def write(self, stem):
        """Writes stem.npz and stem.json beside this file."""
        here = pathlib.Path(__file__).parent
        np.savez_compressed(here / f"{stem}.npz", **self._arrays)
        text = ",\n".join(json.dumps(c, separators=(",", ":")) for c in self._cases)
        (here / f"{stem}.json").write_text(f"[\n{text}\n]\n")
