"""python -m deuteron.eiq enable | disable | status"""

from __future__ import annotations

import argparse
import sys

from .._errors import Error
from . import disable, enable, status


def main() -> int:
    """Runs the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m deuteron.eiq",
        description="Installs or removes the names of NXP's eIQ Neutron SDK in this virtual environment.",
    )
    parser.add_argument("action", choices=("enable", "disable", "status"))
    action = parser.parse_args().action
    try:
        if action == "enable":
            enable()
        elif action == "disable":
            disable()
        print(f"eiq_neutron_sdk: {status()}")
    except Error as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
