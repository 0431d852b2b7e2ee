# Libraries of a firmware project: `deuteron` (loader and executor), `kernels`, `model` (programs,
# memory, what is linked for them) and `board`.
# lists DEUTERON_MODELS, _CORE, _KERNELS, _PLUGINS and _BOARD; DEUTERON_BOARD_FOLDER, _RUN_EVENTS
include(${CMAKE_CURRENT_LIST_DIR}/sources.cmake)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-Os -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-Os -DNDEBUG -std=c99")
set(CMAKE_EXECUTABLE_SUFFIX .elf)

# -DDEUTERON_PROFILE=ON: the image records what its runs cost, 16 bytes of RAM an event, and writes
# it to `profile.bin`. Off, none of it is linked.
option(DEUTERON_PROFILE "Record what runs cost" OFF)
set(DEUTERON_PROFILE_EVENTS "" CACHE STRING
    "Room for so many events, the oldest are kept; empty: for all ${DEUTERON_RUN_EVENTS} of a run")
set(profile_events 0)
if(DEUTERON_PROFILE)
  set(profile_events ${DEUTERON_RUN_EVENTS})
  if(NOT "${DEUTERON_PROFILE_EVENTS}" STREQUAL "")
    if(NOT "${DEUTERON_PROFILE_EVENTS}" MATCHES "^[1-9][0-9]*$")
      message(FATAL_ERROR
          "DEUTERON_PROFILE_EVENTS is `${DEUTERON_PROFILE_EVENTS}`: give a number from 1 on,"
          " or nothing for all ${DEUTERON_RUN_EVENTS} events of a run")
    endif()
    if(DEUTERON_PROFILE_EVENTS LESS DEUTERON_RUN_EVENTS)
      set(profile_events ${DEUTERON_PROFILE_EVENTS})
    endif()
  endif()
endif()

# -DDEUTERON_SERIAL=ON: text and files by serial ports and memory of the board, for an emulator that
# gives the image nothing of the host.
option(DEUTERON_SERIAL "Serial ports instead of semihosting" OFF)
if(DEUTERON_SERIAL)
  list(REMOVE_ITEM DEUTERON_BOARD deuteron/device/runtime/ports/cortex_m/semihosting.cpp)
else()
  list(REMOVE_ITEM DEUTERON_BOARD deuteron/device/runtime/ports/cortex_m/serial.cpp)
endif()

# FlatBuffers is header-only; a link keeps the other headers of its folder out.
find_path(FLATBUFFERS_INCLUDE_DIR flatbuffers/flatbuffers.h PATHS /usr/include /usr/local/include
    NO_CMAKE_FIND_ROOT_PATH)
if(NOT FLATBUFFERS_INCLUDE_DIR)
  message(FATAL_ERROR
      "flatbuffers/flatbuffers.h is not there: install libflatbuffers-dev or set"
      " FLATBUFFERS_INCLUDE_DIR")
endif()
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/include)
file(CREATE_LINK ${FLATBUFFERS_INCLUDE_DIR}/flatbuffers ${CMAKE_BINARY_DIR}/include/flatbuffers
    SYMBOLIC)

function(deuteron_library name optimize)
  add_library(${name} STATIC ${ARGN})
  target_include_directories(${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}
      ${CMAKE_CURRENT_SOURCE_DIR}/deuteron)
  target_include_directories(${name} SYSTEM PUBLIC ${CMAKE_BINARY_DIR}/include)
  target_compile_options(${name} PRIVATE ${optimize} -Wall -Wextra -Wno-psabi -ffp-contract=off
      -fstack-usage)
endfunction()
deuteron_library(deuteron -Os ${DEUTERON_CORE})
# Sums of the kernels are spilled where instructions are scheduled before registers are given.
deuteron_library(kernels "-O2;-fno-schedule-insns" ${DEUTERON_KERNELS})
deuteron_library(model -Os ${DEUTERON_MODELS})
deuteron_library(board -Os ${DEUTERON_BOARD})
# Each plug-in has an entry of its own name: that of its file.
if(DEUTERON_PLUGINS)
  deuteron_library(plugins -O2 ${DEUTERON_PLUGINS})
  foreach(source ${DEUTERON_PLUGINS})
    get_filename_component(entry ${source} NAME_WE)
    set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS DTR_PLUGIN_ENTRY=${entry})
  endforeach()
  target_link_libraries(plugins PUBLIC m)
  target_link_libraries(model PUBLIC plugins)
endif()
foreach(source ${DEUTERON_MODELS})
  if(source MATCHES "(.*)/program.S$")
    set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS
        ${CMAKE_CURRENT_SOURCE_DIR}/${CMAKE_MATCH_1}/program.pte)
  elseif(source STREQUAL memory/tensors.S)
    file(GLOB tensor_files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/memory/*.ptd)
    set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${tensor_files}")
  endif()
endforeach()
target_link_libraries(model PUBLIC deuteron kernels)
target_link_libraries(kernels PUBLIC deuteron)
target_link_libraries(board PUBLIC deuteron)
target_compile_definitions(board PUBLIC DEUTERON_PROFILE_EVENTS=${profile_events})
target_include_directories(board PUBLIC deuteron/${DEUTERON_BOARD_FOLDER})
target_link_options(board PUBLIC -nostartfiles -Wl,--gc-sections --specs=nano.specs
                    -L${CMAKE_CURRENT_SOURCE_DIR}/deuteron/device/runtime/ports/cortex_m
                    -T${CMAKE_CURRENT_SOURCE_DIR}/deuteron/${DEUTERON_BOARD_FOLDER}/board.ld
                    -Wl,-Map=$<TARGET_PROPERTY:NAME>.map)

# `cmake --build build --target stack`: the most stack that the image can use, against what
# sections.ld reserves; `sizes`: what it is made of.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_custom_target(sizes COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/deuteron/sizes.py
      firmware.map DEPENDS firmware)
  add_custom_target(stack COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/deuteron/stack.py
      $<TARGET_FILE:firmware> --limit 16384 DEPENDS firmware)
endif()
