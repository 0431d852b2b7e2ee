#!/bin/sh
# The same calls with the plain loops and with those of the DSP extension have the same results.
#   equal_calls.sh KERNEL_CALLS KERNEL_CALLS_DSP FOLDER      (the folder takes both files of calls)
set -eu
"$1" --calls 20000 --write "$3/calls.bin"
"$2" --calls 20000 --write "$3/calls_dsp.bin"
cmp "$3/calls.bin" "$3/calls_dsp.bin"
