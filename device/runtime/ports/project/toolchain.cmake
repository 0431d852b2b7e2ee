set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_ASM_COMPILER arm-none-eabi-g++)
include(${CMAKE_CURRENT_LIST_DIR}/cpu.cmake)  # DEUTERON_CPU
set(device_flags
    "${DEUTERON_CPU} -mthumb -ffreestanding -ffunction-sections -fdata-sections -fno-pic")
set(CMAKE_ASM_FLAGS_INIT "${device_flags}")
set(CMAKE_C_FLAGS_INIT "${device_flags}")
set(CMAKE_CXX_FLAGS_INIT
    "${device_flags} -fno-exceptions -fno-rtti -fno-threadsafe-statics \
-fno-unwind-tables -fno-asynchronous-unwind-tables")
