"""Deuteron in the place of the closed parts of ExecuTorch's NXP flow.

ExecuTorch's ``NeutronQuantizer``, ``NeutronPartitioner`` and ``NeutronBackend`` call the package
``eiq_neutron_sdk``, and their tests the programs ``nsys`` and ``nxp_executor_runner``. In a virtual
environment

    python -m deuteron.eiq enable

installs these names, which lead here; ``disable`` takes them away. Where NXP's SDK is installed
nothing is changed. ``register`` enters ``NeutronBackend`` in ExecuTorch's runtime in this process:

    import deuteron.eiq
    deuteron.eiq.register()
    from executorch.runtime import Runtime
    method = Runtime.get().load_program("model.pte").load_method("forward")
"""

from __future__ import annotations

from ._install import disable, enable, status

__all__ = ["disable", "enable", "register", "status"]


def register() -> None:
    """Registers ``NeutronBackend`` with ExecuTorch's runtime, which then simulates the NPU.

    Payloads must come from ``deuteron convert``; those of NXP's converter are refused.
    """
    from .. import _deuteron
    from .._errors import fail
    from ..executorch import _folder

    if _deuteron.executorch_register_neutron(_folder) == 0:
        raise fail(
            "python-argument",
            "ExecuTorch has a NeutronBackend already, or no registry of backends",
            "register in a process in which no other NeutronBackend is loaded",
        )
