# Toolchain of the device build for the core that `device_core` names: what runs beside the NPU.
# Libraries only; there is nothing to link against.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
set(device_flags
    "-mcpu=${device_core} -mthumb -mfloat-abi=hard -ffreestanding \
-ffunction-sections -fdata-sections -fno-pic")
set(CMAKE_C_FLAGS_INIT "${device_flags}")
set(CMAKE_CXX_FLAGS_INIT "${device_flags} -fno-exceptions -fno-rtti -fno-threadsafe-statics")
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
