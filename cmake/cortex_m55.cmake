# Cortex-M55 with MVE and FPU.
set(device_core cortex-m55)
include(${CMAKE_CURRENT_LIST_DIR}/cortex_m.cmake)
