"""How fast this machine is right now, so that figures of two runs can be told from the machines'
difference. Standard library only."""
import hashlib
import platform
import time
from pathlib import Path


def cpu_name():
    """Model name of the first CPU as Linux reports it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def yardstick_ms(repeats=7):
    """Best time of a fixed piece of work (SHA-256 over 8 MiB), milliseconds; a neighbour on the
    machine shows as a larger figure."""
    data = bytes(8 << 20)
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        hashlib.sha256(data).digest()
        best = min(best, time.perf_counter() - start)
    return round(best * 1e3, 3)


def instruction_set():
    """The widest of those for which the simulator has kernels, as the processor tells it."""
    known = {
        "avx512_vnni": "AVX-512 VNNI",
        "avx512bw": "AVX-512",
        "avx2": "AVX2",
        "sse4_1": "SSE4.1",
    }
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            flags = line.split()
            return next((name for flag, name in known.items() if flag in flags), "SSE2")
    return "unknown"
