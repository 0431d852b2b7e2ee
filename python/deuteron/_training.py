"""Quantization-aware training of what `qat_prepare` makes."""

from __future__ import annotations

from typing import Any

from ._errors import fail
from ._results import flag

__all__ = ["train_batch_norms"]

_TRAINING = 5  # the argument of aten.batch_norm that chooses the statistics


def train_batch_norms(module: Any, on: bool = True) -> int:
    """Lets the batch norms of a prepared export train, or fixes their statistics.

    module: ``prepared.exported_program().module()``. While on, they normalize with the mean and the
    variance of the batch, and update the running ones, as in ``module.train()``, which exports do not
    have. Switch them off for the last epochs, and before the export. Returns their number.
    """
    import torch

    if not isinstance(module, torch.fx.GraphModule):
        raise fail(
            "python-argument",
            f"module is a {type(module).__name__}",
            "give prepared.exported_program().module()",
        )
    training = flag("on", on)
    found = 0
    for node in module.graph.nodes:
        if node.target is torch.ops.aten.batch_norm.default:
            node.args = (*node.args[:_TRAINING], training, *node.args[_TRAINING + 1 :])
            found += 1
    module.recompile()
    return found
