# What every target of the project shares: language, warnings, sanitizers, and the one function that
# adds a library.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(DTR_CCACHE ccache)
if(DTR_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
      CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_IGNOREOPTIONS=-ffile-prefix-map=*
      ${DTR_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# Everything a target is compiled with; PUBLIC so that tests see the same language.
add_library(dtr_options INTERFACE)
target_include_directories(dtr_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(dtr_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    -Wno-sign-conversion $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
                                             $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>
                                             -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.
                                             -ffp-contract=off
                                             -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # False alarms on std::string and std::variant in g++ 12.
  target_compile_options(dtr_options INTERFACE -Wno-array-bounds -Wno-maybe-uninitialized
      -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
endif()
if(DTR_WARNINGS_AS_ERRORS)
  target_compile_options(dtr_options INTERFACE -Werror)
endif()
if(DTR_FUZZ)
  target_compile_options(dtr_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(DTR_SANITIZE)
  # `undefined` does not include conversions of floats that the integer type cannot hold.
  string(REPLACE undefined undefined,float-cast-overflow sanitizers ${DTR_SANITIZE})
  target_compile_options(dtr_options INTERFACE -fsanitize=${sanitizers} -fno-sanitize-recover=all
      -fno-omit-frame-pointer)
  # A pointer that is null or leaves its object: AddressSanitizer reports the access itself. These
  # two checks stand at every access of every template and are a third of the time to compile.
  if(DTR_SANITIZE MATCHES address)
    target_compile_options(dtr_options INTERFACE -fno-sanitize=null,object-size)
  endif()
  target_link_options(dtr_options INTERFACE -fsanitize=${sanitizers})
  # UndefinedBehaviorSanitizer keeps a record with pointers for every check: four million of them in
  # the command. Position-independent, all were relocated whenever it starts, .4 s a process.
  if(NOT CMAKE_POSITION_INDEPENDENT_CODE)
    target_compile_options(dtr_options INTERFACE -fno-pie)
    target_link_options(dtr_options INTERFACE -no-pie)
  endif()
endif()

# Reading the same library headers is most of a source's compile time: they are read once. Only
# headers that never change with the project, so that no edit rebuilds everything; a library with
# other language flags (freestanding) goes without.
if(NOT CMAKE_CROSSCOMPILING OR EMSCRIPTEN)
  if(NOT EMSCRIPTEN)
    find_package(fmt REQUIRED)
  endif()
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cpp CONTENT "")
  add_library(dtr_precompiled OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(dtr_precompiled PRIVATE dtr_options fmt::fmt tl::expected)
  set(DTR_PRECOMPILED_HEADERS <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <map>
      <memory> <numeric> <optional>
      <random> <span> <string> <string_view> <unordered_map> <variant> <vector> <fmt/format.h>
      <tl/expected.hpp>)
  target_precompile_headers(dtr_precompiled PRIVATE ${DTR_PRECOMPILED_HEADERS})
  # Test programs are not optimized, see dtr_test: a precompiled header serves one level only.
  if(DTR_BUILD_TESTS)
    find_package(GTest REQUIRED)
    add_library(dtr_precompiled_tests OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
    target_link_libraries(dtr_precompiled_tests PRIVATE dtr_options fmt::fmt tl::expected
        GTest::gtest)
    target_compile_options(dtr_precompiled_tests PRIVATE -O0)
    target_precompile_headers(dtr_precompiled_tests PRIVATE ${DTR_PRECOMPILED_HEADERS} <filesystem>
        <gtest/gtest.h>)
  endif()
endif()

# dtr_precompile(TARGET): the sources of TARGET start from the headers that are read once.
function(dtr_precompile target)
  if(NOT TARGET dtr_precompiled)
    target_link_libraries(${target} PRIVATE fmt::fmt)
    return()
  endif()
  target_link_libraries(${target} PRIVATE fmt::fmt)
  # The compiler takes a precompiled header only with the option that made it: -fPIC where all
  # libraries are position-independent, but CMake compiles programs with -fPIE.
  get_target_property(type ${target} TYPE)
  if(CMAKE_POSITION_INDEPENDENT_CODE AND type STREQUAL EXECUTABLE)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM dtr_precompiled)
endfunction()

# dtr_together(TARGET APART): with DTR_TOGETHER up to eight sources of TARGET are compiled as one,
# so that what they include is read and instantiated once, but for those APART (a list, or ALL),
# which have a local name that another one has too.
function(dtr_together target apart)
  if(DTR_TOGETHER AND NOT apart STREQUAL ALL)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    set_source_files_properties(${apart} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# dtr_library(NAME SOURCES a.cpp b.cpp [APART b.cpp …] [DEPENDS dtr_x fmt::fmt …]): static library
# `dtr_NAME`. APART: see dtr_together.
function(dtr_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;APART;DEPENDS" ${ARGN})
  add_library(dtr_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(dtr_${name} PUBLIC dtr_options ${ARG_DEPENDS})
  dtr_precompile(dtr_${name})
  dtr_together(dtr_${name} "${ARG_APART}")
endfunction()

# dtr_freestanding_library: as dtr_library, for code that also runs on the device: no exceptions, no
# RTTI, no thread-safe statics.
function(dtr_freestanding_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(dtr_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(dtr_${name} PUBLIC dtr_options ${ARG_DEPENDS})
  target_compile_options(dtr_${name} PRIVATE -fno-exceptions -fno-rtti -fno-threadsafe-statics)
endfunction()

# dtr_fast(TARGET [SOURCE…]): in a Release build for this machine TARGET is compiled with -O3, also
# where the build's level is lower for the size of the program, as the wheel's. The sources named
# have functions for instruction sets of their own: g++ compiles these with the level of the
# precompiled headers, so that they go without.
function(dtr_fast target)
  if(CMAKE_CROSSCOMPILING OR CMAKE_CXX_FLAGS_RELEASE MATCHES "-O3")
    return()
  endif()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O3>)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# dtr_test(NAME SOURCES …  DEPENDS …): GoogleTest program `test_NAME`, registered with ctest as one
# test a program. Its own sources are not optimized: assertions are a quarter of all that is
# compiled and take no time to run; what they test has the level of the build.
function(dtr_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(test_${name} ${ARG_SOURCES})
  dtr_together(test_${name} "")
  target_link_libraries(test_${name} PRIVATE dtr_options ${ARG_DEPENDS} GTest::gtest
      GTest::gtest_main fmt::fmt)
  target_compile_options(test_${name} PRIVATE -O0)
  if(TARGET dtr_precompiled_tests)
    target_precompile_headers(test_${name} REUSE_FROM dtr_precompiled_tests)
  endif()
  add_test(NAME ${name} COMMAND test_${name} --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES ENVIRONMENT
      "DEUTERON_SOURCE=${CMAKE_SOURCE_DIR};DEUTERON_SHARED=${DTR_SHARED}" TIMEOUT 900 LABELS unit)
endfunction()

# dtr_schema(NAME x.fbs): generates x_generated.h with flatc into
# ${CMAKE_BINARY_DIR}/generated/<folder>, target `dtr_schema_NAME`.
function(dtr_schema name schema)
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  get_filename_component(stem ${schema} NAME_WE)
  set(out ${CMAKE_BINARY_DIR}/generated/${folder}/${stem}_generated.h)
  set(then "")
  if(EMSCRIPTEN AND name STREQUAL tflite)
    set(then COMMAND sed -i "1i #undef ARG_MAX" ${out})  # a macro of its limits.h, an operator here
  endif()
  add_custom_command(OUTPUT ${out}
    COMMAND ${FLATC} --cpp --scoped-enums -o ${CMAKE_BINARY_DIR}/generated/${folder}
        ${CMAKE_CURRENT_SOURCE_DIR}/${schema} ${then}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${schema} COMMENT "flatc ${schema}")
  add_custom_target(dtr_schema_${name}_header DEPENDS ${out})
  add_library(dtr_schema_${name} INTERFACE)
  target_include_directories(dtr_schema_${name} SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/generated)
  add_dependencies(dtr_schema_${name} dtr_schema_${name}_header)
endfunction()

# dtr_fuzz(NAME SOURCES fuzz_x.cpp SEEDS … [DEPENDS …] [REGRESSIONS …] [ITERATIONS 5000]): a source
# with LLVMFuzzerTestOneInput becomes `fuzz_NAME`. ctest runs it on seeded mutations of the seed
# files (test/fuzz/seeded_main.cpp) and on the regressions: files, all those of REGRESSIONS and of
# test/fuzz/regressions/NAME. With DTR_FUZZ it is linked with libFuzzer instead, and scripts/fuzz,
# for which NAME.seeds and NAME.regressions in the build folder list both, runs it for as long as
# one likes.
function(dtr_fuzz name)
  cmake_parse_arguments(ARG "" "ITERATIONS" "SOURCES;SEEDS;DEPENDS;REGRESSIONS" ${ARGN})
  if(NOT ARG_ITERATIONS)
    set(ARG_ITERATIONS 5000)
  endif()
  add_executable(fuzz_${name} ${ARG_SOURCES})
  target_link_libraries(fuzz_${name} PRIVATE dtr_options dtr_fuzz_engine ${ARG_DEPENDS})
  dtr_precompile(fuzz_${name})
  if(DTR_FUZZ)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    # The engine calls it, see test/fuzz/libfuzzer_depth.cpp.
    target_compile_definitions(fuzz_${name} PRIVATE LLVMFuzzerCustomMutator=dtr_target_mutator)
  else()
    add_dependencies(fuzz_${name} fuzz_seed_files)
    set(regressions ${CMAKE_CURRENT_SOURCE_DIR}/regressions/${name})
    if(EXISTS ${regressions})
      list(APPEND ARG_REGRESSIONS ${regressions})
    endif()
    foreach(list SEEDS REGRESSIONS)
      string(REPLACE ";" "\n" lines "${ARG_${list}}")
      string(TOLOWER ${list} extension)
      file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.${extension} CONTENT "${lines}\n")
    endforeach()
    list(TRANSFORM ARG_REGRESSIONS PREPEND "--regressions;")
    add_test(NAME fuzz_${name} COMMAND fuzz_${name} --iterations ${ARG_ITERATIONS} --seconds 100
        ${ARG_REGRESSIONS} ${ARG_SEEDS})
    set_tests_properties(fuzz_${name} PROPERTIES TIMEOUT 300)
  endif()
endfunction()
