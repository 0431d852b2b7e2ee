"""Firmware projects as their users build and start them: CMake, then QEMU with semihosting.
Standard library only."""
COUNTED = ("-icount", "shift=0")  # an instruction a nanosecond: counts do not depend on the host


def build(run, project, *options, targets=()):
    """Builds a project, or some of its targets, in its folder `build`. `run` starts a command;
    returns what it returns of the build."""
    run("cmake", "-G", "Ninja", "-S", project, "-B", project / "build", *options)
    return run("cmake", "--build", project / "build", *(["--target", *targets] if targets else []))


def qemu(image, *options, machine="mps2-an505"):
    """The command that starts an image; its files are in the folder where the command runs."""
    return [
        "qemu-system-arm",
        "-M",
        machine,
        "-kernel",
        image,
        "-nographic",
        "-monitor",
        "none",
        "-serial",
        "none",
        "-semihosting-config",
        "enable=on,target=native",
        *options,
    ]
