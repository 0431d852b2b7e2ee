#!/usr/bin/env python3
"""The most stack that an image can use, from its own instructions: frames of all functions, library
included, over the graph of calls.

    stack.py IMAGE.elf [OBJDUMP] [--limit BYTES] [--all]

Calls through pointers are resolved by the table below; one that is not in it, recursion, or a frame
of no fixed size is an error, as is a bound above the limit. An interrupt may come on top: the
deepest handler and what the core saves are added. Standard library only.
"""
import re
import subprocess
import sys

# Who calls through a pointer: whom it can be. A function of the second column counts if its address
# is in the image.
KERNEL = r"dtr::runtime::\w+::\w+\(std::span<dtr::runtime::Value\* const"
DELEGATE = r"dtr::runtime::\(anonymous namespace\)::"
# prepare, run, unprepare, by their arguments
DRIVER = r"dtr::simulator::Simulator::driver\(\)::\{lambda.*::_FUN\(void\*, "
INDIRECT = (
    (
        r"dtr::runtime::Method::run\(",
        (KERNEL, DELEGATE + r"run\(", r"^\(anonymous namespace\)::(before|after)\("),
    ),
    (r"dtr::runtime::Program::run_plugin_kernel\(", (r"dtr::runtime::run_plugin_kernel\(",)),
    (r"dtr::runtime::Method::prepare\(", (r"dtr::runtime::reset_states\(",)),
    (r"dtr::runtime::Method::prepare_delegates\(", (DELEGATE + r"prepare\(",)),
    (r"dtr::runtime::Method::release\(", (DELEGATE + r"release\(",)),
    (DELEGATE + r"prepare\(", (DRIVER + r"void const\*", DRIVER + r"unsigned (int|long)\)")),
    (DELEGATE + r"run\(", (DRIVER + r"unsigned (int|long), dtr::npu::Buffer",)),
    (DELEGATE + r"release\(", (DRIVER + r"unsigned (int|long)\)",)),
    (
        (
            r"dtr::simulator::(execute|run|internal::apply|visit|\(anonymous"
            r" namespace\)::Execution::(?!emit_event))"
        ),
        (r"dtr::simulator::\(anonymous namespace\)::\w+\(dtr::simulator::Call const&",),
    ),
    (r"^main$", (r"^model\w*::(start|method|take_npu_cycles)\(",)),
    (r"^\(anonymous namespace\)::after\(", (r"^model\w*::take_npu_cycles\(",)),
    # Arithmetic on integers takes its function as a pointer.
    (
        r"dtr::runtime::portable::(map_integers\(|for_each_offset<\S+::map_integers\()",
        (
            r"dtr::runtime::portable::(.*::_FUN|\(anonymous namespace\)::\w+)"
            r"\(long long, long long, long long\)",
        ),
    ),
    # Nobody listens in a firmware.
    (r"dtr::simulator::\(anonymous namespace\)::Execution::emit_event\(", ()),
    (r"dtr::runtime::Program::(load|check)\(", ()),
    (r"dtr::runtime::Program::constant\(", (r"dtr::pte::TensorFiles::search\(",)),
    (r"dtr::pte::VerifiedFile::(check|check_checksum|open)\(", (r"dtr::crc32_with_hole\(",)),
)
# Who calls itself: how often it stands in one chain of calls at most. device/pte/flatbuffer.h:
# kMaxSchemaDepth.
RECURSIVE = ((r"dtr::pte::\(anonymous namespace\)::Verifier::table\(", 5),)
SAVED_BY_CORE = 4 * (8 + 18)  # registers, with those of the FPU
HANDLERS = ("counter_tick", "port_fault")
ROOT = "port_reset"


class Function:
    def __init__(self, name):
        self.name, self.frame, self.calls, self.indirect, self.dynamic = (
            name,
            0,
            set(),
            False,
            False,
        )
        self.linked = set()  # of `calls`, those that come back


def registers(text):
    """How many registers a list such as `{r4, r5-r7, lr}` or `{d8-d10}` names."""
    count = 0
    for part in re.search(r"\{(.*)\}", text).group(1).split(","):
        ends = [int(re.sub(r"\D", "", end)) for end in part.split("-")] if "-" in part else [0, 0]
        count += ends[1] - ends[0] + 1
    return count


def read(instruction, operands, function):
    """What one instruction does to the stack of its function, and whom it calls."""
    if instruction.startswith("push") or (
        instruction.startswith("stmdb") and operands.startswith("sp!")
    ):
        function.frame += 4 * registers(operands)
    elif instruction.startswith("vpush"):
        function.frame += (8 if "d" in operands else 4) * registers(operands)
    elif instruction.startswith(("str", "strd")) and (
        match := re.search(r"\[sp, #-(\d+)\]!", operands)
    ):
        function.frame += int(match.group(1))
    elif instruction.startswith("sub") and operands.startswith("sp"):
        size = re.search(r"#(\d+)", operands)
        function.frame += int(size.group(1)) if size else 0
        function.dynamic |= size is None
    elif instruction in ("blx", "bx") and not operands.startswith("lr"):
        function.indirect = True
    elif re.match(r"(b|bl|cbn?z)([a-z]{2})?(\.[nw])?$", instruction) and (
        match := re.search(r"([0-9a-f]+) <", operands)
    ):
        function.calls.add(int(match.group(1), 16))
        if instruction.startswith("bl") and len(instruction) in (2, 4):
            function.linked.add(int(match.group(1), 16))


def disassemble(image, objdump):
    """Functions by address, and the addresses that are stored somewhere."""
    functions, current = {}, None
    text = subprocess.run([objdump, "-d", image], capture_output=True, text=True, check=True).stdout
    names = subprocess.run(
        [objdump, "-d", "-C", image], capture_output=True, text=True, check=True
    ).stdout
    demangled = {
        int(a, 16): name for a, name in re.findall(r"^([0-9a-f]+) <(.+)>:$", names, re.MULTILINE)
    }
    words = set()
    for line in text.splitlines():
        if match := re.match(r"([0-9a-f]+) <.+>:$", line):
            address = int(match.group(1), 16)
            current = functions[address] = Function(demangled[address])
        elif current and (
            match := re.match(r"\s*[0-9a-f]+:\s+[0-9a-f ]+\t(\S+)(?:\t(.*))?$", line)
        ):
            if match.group(1) == ".word":
                words.add(int(match.group(2), 16))
            read(match.group(1), match.group(2) or "", current)
    dump = subprocess.run(
        [objdump, "-s", "-j", ".text", "-j", ".data", image],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for line in re.findall(r"^ [0-9a-f]+ ((?:[0-9a-f]+ )+)", dump, re.MULTILINE):
        words.update(
            int.from_bytes(bytes.fromhex(word), "little") for word in line.split() if len(word) == 8
        )
    return functions, {word - 1 for word in words if word - 1 in functions}


def resolve(functions, stored, errors):
    """Targets of calls through pointers become calls; jumps inside of a function go."""
    for address, function in functions.items():
        if address in function.linked:
            times = next(
                (times for pattern, times in RECURSIVE if re.search(pattern, function.name)), None
            )
            if times is None:
                errors.append(f"{function.name} calls itself")
            else:
                function.frame *= times
        function.calls = {
            target for target in function.calls if target in functions and target != address
        }
        if not function.indirect:
            continue
        rule = next(
            (targets for caller, targets in INDIRECT if re.search(caller, function.name)), None
        )
        if rule is None:
            errors.append(f"{function.name} calls through a pointer, and nothing says whom")
            continue
        function.calls |= {
            target
            for target in stored
            if any(re.search(pattern, functions[target].name) for pattern in rule)
        }


def deepest(functions, address, known, path, errors):
    """(bytes, path) of the deepest chain of calls from a function."""
    if address in known:
        return known[address]
    function = functions[address]
    if address in path:
        errors.append(f"{function.name} calls itself")
        return 0, ()
    below = max(
        (
            deepest(functions, callee, known, path | {address}, errors)
            for callee in sorted(function.calls)
        ),
        default=(0, ()),
        key=lambda found: found[0],
    )
    known[address] = (function.frame + below[0], (address, *below[1]))
    return known[address]


def main():
    arguments = sys.argv[1:]
    limit = int(arguments.pop(arguments.index("--limit") + 1)) if "--limit" in arguments else None
    show_all = "--all" in arguments
    positional = [argument for argument in arguments if not argument.startswith("--")]
    image, objdump = (
        positional[0],
        positional[1] if len(positional) > 1 else "arm-none-eabi-objdump",
    )
    functions, stored = disassemble(image, objdump)
    errors, known = [], {}
    resolve(functions, stored, errors)
    by_name = {
        function.name.split("(")[0].split("::")[-1]: address
        for address, function in functions.items()
    }
    total, path = deepest(functions, by_name[ROOT], known, frozenset(), errors)
    interrupt = (
        max(
            deepest(functions, by_name[name], known, frozenset(), errors)[0]
            for name in HANDLERS
            if name in by_name
        )
        + SAVED_BY_CORE
    )
    errors += [
        f"{functions[address].name} has a frame of no fixed size"
        for address in known
        if functions[address].dynamic
    ]
    print(
        f"stack: at most {total + interrupt} bytes: {total} of the deepest chain, {interrupt} of an"
        " interrupt on top of it"
    )
    shown = sorted(known, key=lambda address: -functions[address].frame) if show_all else path
    for address in shown:
        print(f"  {functions[address].frame:6}  {functions[address].name}")
    if limit is not None and total + interrupt > limit:
        errors.append(f"{total + interrupt} bytes are more than the stack has, {limit}")
    for error in errors:
        print(f"error: {error}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
