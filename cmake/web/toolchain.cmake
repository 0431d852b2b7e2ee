# Toolchain of the page for browsers: Debian's Emscripten. Sources are compiled by its clang without
# the script around it, which would take longer than many of them; the script links. The C++ library
# is LLVM 16's, because Emscripten's own has no algorithms of C++20 (cmake/web/libraries.cmake).
set(emscripten /usr/share/emscripten)
set(EMSCRIPTEN_SYSTEM_PROCESSOR wasm32)
# Its scripts need a package of Debian's for which Node.js of another origin does not look.
set(ENV{NODE_PATH} /usr/share/nodejs)
include(${emscripten}/cmake/Modules/Platform/Emscripten.cmake)
set(web_flags "-target wasm32-unknown-emscripten --sysroot=${EMSCRIPTEN_SYSROOT} -DEMSCRIPTEN \
-fvisibility=default -fno-threadsafe-statics -msimd128 -fwasm-exceptions -Xclang \
-fno-pch-timestamp")
set(CMAKE_C_COMPILE_OBJECT
    "/usr/bin/clang-14 ${web_flags} <DEFINES> <INCLUDES> <FLAGS> -o <OBJECT> -c <SOURCE>")
set(CMAKE_CXX_COMPILE_OBJECT
    "/usr/bin/clang++-14 ${web_flags} <DEFINES> <INCLUDES> <FLAGS> -o <OBJECT> -c <SOURCE>")
set(CMAKE_CXX_LINK_EXECUTABLE "${CMAKE_COMMAND} -E env NODE_PATH=/usr/share/nodejs \
<CMAKE_CXX_COMPILER> <FLAGS> <CMAKE_CXX_LINK_FLAGS> <LINK_FLAGS> <OBJECTS> -o <TARGET> \
<LINK_LIBRARIES>")
