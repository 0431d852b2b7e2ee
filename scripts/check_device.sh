#!/bin/bash
# Compiles the device subset (the folder device/) for Cortex-M33 and looks at the objects: no heap,
# no exceptions, no stdio, no static constructors, nothing undefined but what a freestanding C
# library has. Prints the size of each library.
#   scripts/check_device.sh [-j N]
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=$(nproc)
while getopts j: option; do
  case $option in
    j) jobs=$OPTARG ;;
    *) exit 2 ;;
  esac
done
build=build/device
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ cmake --preset device && cmake --build $build -j "$jobs"; } >"$log" 2>&1 || {
  cat "$log"
  exit 1
}

mapfile -t libraries < <(find $build -name 'libdtr_*.a' | sort)
for name in npu numerics pte runtime simulator; do
  [[ "${libraries[*]}" == *"/libdtr_$name.a"* ]] || {
    echo "check_device: libdtr_$name.a was not built"
    exit 1
  }
done

# All an object may leave to others: memory and string functions without state, arithmetic of libgcc
# (__aeabi_*, __ctzdi2), and libm. Of a port: main, and what the linker script of a board defines.
allowed='main|port_(bss|data|program|stack)_[a-z]+|mem(cpy|move|set|cmp)|str(len|n?cmp)'
allowed+='|__aeabi_(?!atexit|unwind)[a-z0-9]+|__c[lt]z[ds]i2'
allowed+='|(exp|expm1|log|log1p|log2|log10|a?sinh?|a?cosh?|a?tanh?|atan2|pow|sqrt|round|trunc|floor'
allowed+='|ceil|rint|nearbyint|lrint|fabs|ldexp|frexp|scalbn|fmod|fmin|fmax|erfc?)f?'
defined=$(arm-none-eabi-nm --defined-only -A "${libraries[@]}" | awk '{print $NF}' | sort -u)
bad=0
for library in "${libraries[@]}"; do
  left=$(arm-none-eabi-nm -u "$library" | awk 'NF == 2 {print $2}' | sort -u |
    grep -vxF "$defined" | grep -vxP "$allowed" || true)
  if [ -n "$left" ]; then
    echo "$library asks for what the device does not have:"
    arm-none-eabi-nm -u "$library" | awk '/:$/ {file = $1} NF == 2 {print $2, file}' |
      grep -wF "$left" | arm-none-eabi-c++filt | sort -u | sed 's/^/  /'
    bad=1
  fi
  if arm-none-eabi-objdump -h "$library" | grep -E '\.(init_array|fini_array|ctors)'; then
    echo "$library has static constructors"
    bad=1
  fi
  arm-none-eabi-size -t "$library" | awk -v name="$(basename "$library")" \
    'END {printf "%-28s text %6d  data %4d  bss %4d\n", name, $1, $2, $3}'
done
exit $bad
