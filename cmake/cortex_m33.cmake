# Cortex-M33 with FPU.
set(device_core cortex-m33)
include(${CMAKE_CURRENT_LIST_DIR}/cortex_m.cmake)
