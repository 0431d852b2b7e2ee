"""What the end-to-end tests share: how a script ends that collected what went wrong."""
import sys


def finish(failures):
    """Prints each failure and their number; the exit code is 1 if there is any."""
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)
