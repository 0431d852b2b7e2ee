# What the other builds take from Debian's libraries, for WebAssembly: headers of the host's
# packages through links, so that no other header of the host comes along, and libraries from
# Debian's sources, which `scripts/setup web` unpacks.
set(sources ${CMAKE_SOURCE_DIR}/build/web-sources)
set(headers ${CMAKE_BINARY_DIR}/headers)
if(NOT EXISTS ${sources}/libcxx)
  message(FATAL_ERROR "${sources} is missing: run scripts/setup web")
endif()

function(web_library name target)
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${ARGN})
  add_library(${target} ALIAS ${name})
  target_compile_options(${name} PRIVATE -w)
endfunction()
function(web_headers target)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  set(folder ${headers}/${target})
  string(REPLACE "::" "_" folder ${folder})
  file(MAKE_DIRECTORY ${folder})
  foreach(entry ${ARGN})
    file(CREATE_LINK /usr/include/${entry} ${folder}/${entry} SYMBOLIC)
  endforeach()
  target_include_directories(${target} SYSTEM INTERFACE ${folder})
endfunction()

# The C++ library: its headers come first everywhere. Threads exist, and none can be made.
set(libcxx ${sources}/libcxx)
set(_LIBCPP_ABI_VERSION 1)
set(_LIBCPP_ABI_NAMESPACE __16)  # nothing of Emscripten's own is taken by mistake
set(_LIBCPP_HAS_MUSL_LIBC ON)
set(_LIBCPP_HAS_THREAD_API_PTHREAD ON)
set(_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS ON)
set(_LIBCPP_HAS_NO_VENDOR_AVAILABILITY_ANNOTATIONS ON)
set(_LIBCPP_ENABLE_ASSERTIONS_DEFAULT 0)
configure_file(${libcxx}/include/__config_site.in ${headers}/libcxx/__config_site)
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-nostdinc++>"
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-isystem ${CMAKE_SOURCE_DIR}/cmake/web/libcxx>"
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-isystem ${headers}/libcxx>"
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-isystem ${libcxx}/include>")
file(GLOB_RECURSE libcxx_sources ${libcxx}/src/*.cpp)
list(FILTER libcxx_sources EXCLUDE REGEX
    "/(support|experimental)/|int128_builtins|random[.]cpp|legacy_debug_handler|/debug[.]cpp$")
add_library(web_libcxx STATIC EXCLUDE_FROM_ALL ${libcxx_sources})
target_compile_definitions(web_libcxx PRIVATE _LIBCPP_BUILDING_LIBRARY LIBCXX_BUILDING_LIBCXXABI)
target_include_directories(web_libcxx PRIVATE ${libcxx}/src
    /usr/share/emscripten/system/lib/libcxxabi/include)
target_compile_options(web_libcxx PRIVATE -w -std=c++2b -faligned-allocation)
link_libraries($<$<NOT:$<STREQUAL:$<TARGET_PROPERTY:NAME>,web_libcxx>>:web_libcxx>)

web_headers(fmt::fmt fmt)
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
web_headers(tl::expected tl)
web_headers(nlohmann_json::nlohmann_json nlohmann)
web_headers(CLI11::CLI11 CLI)
web_headers(hwy_headers hwy)
# Generated headers include it; the device build has the same link.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated)
file(CREATE_LINK /usr/include/flatbuffers ${CMAKE_BINARY_DIR}/generated/flatbuffers SYMBOLIC)
add_library(Threads::Threads INTERFACE IMPORTED GLOBAL)

web_library(web_simdjson simdjson::simdjson ${sources}/simdjson/singleheader/simdjson.cpp)
target_include_directories(web_simdjson SYSTEM PUBLIC ${sources}/simdjson/singleheader)

file(GLOB zlib_sources ${sources}/zlib/*.c)
web_library(web_zlib ZLIB::ZLIB ${zlib_sources})
target_include_directories(web_zlib SYSTEM PUBLIC ${sources}/zlib)
target_compile_definitions(web_zlib PRIVATE HAVE_UNISTD_H)
file(MAKE_DIRECTORY ${headers}/minizip)
file(CREATE_LINK ${sources}/zlib/contrib/minizip ${headers}/minizip/minizip SYMBOLIC)
web_library(web_minizip PkgConfig::minizip ${sources}/zlib/contrib/minizip/zip.c
    ${sources}/zlib/contrib/minizip/ioapi.c)
target_include_directories(web_minizip SYSTEM PUBLIC ${headers}/minizip)
target_link_libraries(web_minizip PUBLIC web_zlib)
target_compile_definitions(web_minizip PRIVATE USE_FILE32API)

# Its own list of sources makes the target.
set(protobuf_SHARED_OR_STATIC STATIC)
set(protobuf_VERSION 3)
set(protobuf_SOURCE_DIR ${sources}/protobuf)
include(${sources}/protobuf/cmake/libprotobuf-lite.cmake)
target_compile_options(libprotobuf-lite PRIVATE -w)
find_program(protoc protoc REQUIRED)
add_executable(protobuf::protoc IMPORTED GLOBAL)
set_target_properties(protobuf::protoc PROPERTIES IMPORTED_LOCATION ${protoc})
