#!/bin/sh
# The same calls with the plain loops and with those of the DSP extension have the same results; the
# latter need more scratch memory, so that they may refuse calls whose arguments are broken.
#   equal_calls.sh KERNEL_CALLS KERNEL_CALLS_DSP FOLDER      (the folder takes a file of calls)
set -eu
"$1" --calls 20000 --write "$3/calls.bin"
"$2" --calls 20000 --expect "$3/calls.bin"
