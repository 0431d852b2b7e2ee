"""Makes CASE.pte, CASE.npz and CASE_expected.npz: programs that ExecuTorch's NXP flow lowers with Deuteron's converter
in the place of NXP's (python -m deuteron.eiq enable), and what PyTorch computes of the quantized
models.

    make_eiq.py       in an environment with torch 2.13.0 and executorch 1.4
"""

from pathlib import Path

import executorch.kernels.quantized  # noqa: F401
import numpy as np
import torch
from executorch.backends.nxp.backend.neutron_target_spec import NeutronTargetSpec
from executorch.backends.nxp.edge_passes.neutron_edge_pass_manager import NeutronEdgePassManager
from executorch.backends.nxp.neutron_partitioner import NeutronPartitioner
from executorch.backends.nxp.nxp_backend import (
    core_aten_ops_exception_list,
    generate_neutron_compile_spec,
)
from executorch.backends.nxp.quantizer.neutron_quantizer import NeutronQuantizer
from executorch.backends.nxp.quantizer.utils import calibrate_and_quantize
from executorch.exir import (
    EdgeCompileConfig,
    ExecutorchBackendConfig,
    to_edge_transform_and_lower,
)

HERE = Path(__file__).parent
TARGET = "imxrt700"


class Convolution(torch.nn.Module):
    """Channels-last in the delegate, contiguous outside."""

    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 5, (3, 2), stride=2, padding=(1, 0))

    def forward(self, x):
        return torch.relu(self.convolution(x))


class Longer(torch.nn.Module):
    """Its last row is the bias alone: `output_padding` is the stride."""

    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.ConvTranspose2d(
            2, 5, (1, 5), stride=(1, 2), dilation=(3, 1), padding=(0, 4), output_padding=(1, 1)
        )

    def forward(self, x):
        return self.convolution(x)


class Difference(torch.nn.Module):
    """Two inputs whose order matters, two outputs."""

    def forward(self, x, y):
        z = y - x
        return torch.tanh(z), z


def lower(name, model, inputs, **options):
    torch.manual_seed(23)
    model = model.eval()
    calibration = [tuple(torch.randn(each.shape) for each in inputs) for _ in range(4)]
    exported = torch.export.export(model, inputs, strict=True)
    spec = NeutronTargetSpec(TARGET)
    quantized = calibrate_and_quantize(exported, calibration, NeutronQuantizer(spec))
    again = torch.export.export(quantized, inputs, strict=True)
    partitioner = NeutronPartitioner(
        generate_neutron_compile_spec(TARGET, **options),
        spec,
        post_quantization_state_dict=quantized.state_dict(),
    )
    edge = to_edge_transform_and_lower(
        again,
        transform_passes=NeutronEdgePassManager(),
        partitioner=[partitioner],
        compile_config=EdgeCompileConfig(
            _check_ir_validity=False, _core_aten_ops_exception_list=core_aten_ops_exception_list
        ),
    )
    program = edge.to_executorch(ExecutorchBackendConfig(extract_delegate_segments=False))
    (HERE / f"{name}.pte").write_bytes(program.buffer)
    with torch.no_grad():
        outputs = again.module()(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    arrays = {f"input_{i}": each.numpy() for i, each in enumerate(inputs)}
    np.savez_compressed(HERE / f"{name}.npz", **arrays)
    arrays = {f"output_{i}": each.numpy() for i, each in enumerate(outputs)}
    np.savez_compressed(HERE / f"{name}_expected.npz", **arrays)


torch.manual_seed(7)
lower(
    "convolution",
    Convolution(),
    (torch.randn(1, 3, 7, 9),),
    use_neutron_for_format_conversion=False,
)
lower("transposed", Convolution(), (torch.randn(1, 3, 7, 9),))
lower("longer", Longer(), (torch.randn(1, 2, 7, 9),))
lower("difference", Difference(), (torch.randn(1, 4, 5), torch.randn(1, 4, 5)))
