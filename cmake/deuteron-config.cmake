# find_package(deuteron): the code of device/ as targets of another project, compiled by it with its
# compiler and flags. Found in the source tree (deuteron_DIR=SOURCES/cmake) or where
# `cmake --install BUILD --component device` has put it. Needs flatc and FlatBuffers' headers.
#
#   deuteron::device               runtime, kernels and simulator
#   deuteron::executorch_backend   DeuteronBackend for ExecuTorch's runtime
#                                  (device/executorch/backend.h)
#
# ExecuTorch's headers come from its target `executorch_core`, or from EXECUTORCH_INCLUDE_DIRS.
cmake_minimum_required(VERSION 3.25)

if(TARGET deuteron::device)
  return()
endif()
get_filename_component(deuteron_root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
set(deuteron_generated ${CMAKE_CURRENT_BINARY_DIR}/deuteron)
find_program(DEUTERON_FLATC NAMES flatc)
find_path(DEUTERON_FLATBUFFERS flatbuffers/flatbuffers.h PATHS /usr/include
    NO_CMAKE_FIND_ROOT_PATH)
if(NOT DEUTERON_FLATC OR NOT DEUTERON_FLATBUFFERS)
  set(deuteron_FOUND FALSE)
  set(deuteron_NOT_FOUND_MESSAGE "flatc or flatbuffers/flatbuffers.h is missing")
  return()
endif()

# A link, so that no other header of the host comes along where the compiler is for a board.
file(MAKE_DIRECTORY ${deuteron_generated}/device/pte)
file(CREATE_LINK ${DEUTERON_FLATBUFFERS}/flatbuffers ${deuteron_generated}/flatbuffers SYMBOLIC)
set(deuteron_headers "")
foreach(schema program flat_tensor)
  set(header ${deuteron_generated}/device/pte/${schema}_generated.h)
  add_custom_command(OUTPUT ${header}
    COMMAND ${DEUTERON_FLATC} --cpp --scoped-enums -o ${deuteron_generated}/device/pte
        ${deuteron_root}/device/pte/${schema}.fbs
    DEPENDS ${deuteron_root}/device/pte/${schema}.fbs COMMENT "flatc ${schema}.fbs")
  list(APPEND deuteron_headers ${header})
endforeach()

file(GLOB deuteron_sources ${deuteron_root}/device/numerics/*.cpp
    ${deuteron_root}/device/npu/*.cpp
    ${deuteron_root}/device/pte/*.cpp ${deuteron_root}/device/simulator/*.cpp
    ${deuteron_root}/device/runtime/*.cpp ${deuteron_root}/device/runtime/kernels/*/*.cpp)
add_library(deuteron_device STATIC EXCLUDE_FROM_ALL ${deuteron_sources} ${deuteron_headers})
add_library(deuteron::device ALIAS deuteron_device)
target_compile_features(deuteron_device PUBLIC cxx_std_20)
target_include_directories(deuteron_device PUBLIC ${deuteron_root})
target_include_directories(deuteron_device SYSTEM PUBLIC ${deuteron_generated})
target_compile_options(deuteron_device PRIVATE -ffp-contract=off -ffunction-sections
    -fdata-sections -fno-exceptions -fno-rtti -fno-threadsafe-statics)

add_library(deuteron_executorch_backend STATIC EXCLUDE_FROM_ALL
    ${deuteron_root}/device/executorch/backend.cpp
    ${deuteron_root}/device/executorch/neutron_payload.cpp)
add_library(deuteron::executorch_backend ALIAS deuteron_executorch_backend)
target_link_libraries(deuteron_executorch_backend PUBLIC deuteron_device)
target_compile_options(deuteron_executorch_backend PRIVATE -ffunction-sections -fdata-sections
    -fno-exceptions -fno-rtti -fno-threadsafe-statics)
target_compile_definitions(deuteron_executorch_backend PUBLIC DTR_EXECUTORCH_HEADERS
    C10_USING_CUSTOM_GENERATED_MACROS)
if(TARGET executorch_core)
  target_link_libraries(deuteron_executorch_backend PUBLIC executorch_core)
else()
  target_include_directories(deuteron_executorch_backend SYSTEM PUBLIC ${EXECUTORCH_INCLUDE_DIRS})
endif()
