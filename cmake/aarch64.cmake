# Toolchain of the tests for 64-bit Arm under QEMU's user mode (`make test-aarch64`).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)  # nothing of that machine is installed
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
