#!/usr/bin/env python3
"""Shows a profile of Deuteron in ExecuTorch's Inspector (pip install executorch==1.4).

    deuteron compile M.pt2 --calibrate DATA.npz -o m.pte --etrecord m.etrecord
    deuteron run m.pte --input DATA.npz --samples 1 --profile m.etdump
    inspect_profile.py m.etdump m.etrecord [MODULE …] [--debug-buffer m.buffer]

Times are cycles of the target's clock. Of every command of the NPU the Inspector shows its number,
and as metadata its kernel.
"""
import argparse
import warnings

from executorch.devtools import Inspector
from executorch.devtools.inspector._inspector_utils import TimeScale


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("record")
    parser.add_argument(
        "modules",
        nargs="*",
        help="modules to add up, such as features.3; default: every module with operators in it",
    )
    parser.add_argument(
        "--debug-buffer",
        help="what `deuteron run --debug-buffer` wrote for the first calibration sample",
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    inspector = Inspector(
        etdump_path=arguments.trace,
        etrecord=arguments.record,
        debug_buffer_path=arguments.debug_buffer,
        source_time_scale=TimeScale.CYCLES,
        target_time_scale=TimeScale.CYCLES,
        delegate_metadata_parser=lambda metadatas: {"kernel": bytes(metadatas[0]).decode()},
    )
    inspector.print_data_tabular(include_delegate_debug_data=True)

    # The same as a pandas data frame: the five events that cost most.
    frame = inspector.to_dataframe(include_delegate_debug_data=True)
    commands = frame[frame["is_delegated_op"] == True]  # noqa: E712
    print("\nMost expensive commands of the NPU")
    print(
        commands.nlargest(5, "avg (cycles)")[
            ["event_name", "kernel", "avg (cycles)", "op_types"]
        ].to_string(index=False)
    )

    # Copies run beside the computation and the host's part of a call lies between its events: these
    # sums are not shares of the run.
    stacks = [
        stack
        for block in inspector.event_blocks
        for event in block.events
        for stack in event.module_hierarchy.values()
        if stack
    ]
    modules = arguments.modules or sorted({list(stack.values())[-1][0] for stack in stacks} - {""})
    print("\nCycles of events by module")
    for module in modules:
        print(f"{inspector.find_total_for_module(module):>12,.0f}  {module}")

    if arguments.debug_buffer:
        print("\nSignal to noise of every value against the exported model, in dB")
        print(inspector.calculate_numeric_gap("SNR")[["aot_ops", "gap"]].to_string(index=False))


if __name__ == "__main__":
    main()
