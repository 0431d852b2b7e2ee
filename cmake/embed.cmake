# dtr_embed(TARGET HEADER folder/name.h PATHS path… FILES file…): `std::span<const EmbeddedFile>
# dtr::name()`, which HEADER declares, with each FILE under its PATH.
function(dtr_embed target)
  cmake_parse_arguments(ARG "" "HEADER" "PATHS;FILES" ${ARGN})
  get_filename_component(name ${ARG_HEADER} NAME_WE)
  # In WebAssembly a symbol has a type and a size, and there is no section to go back to.
  set(section ".section .rodata")
  set(after "    \".text\\n\"")
  if(EMSCRIPTEN)
    set(section ".section .rodata.${name},\\\"\\\",@")
    set(after "")
  endif()
  set(code "#include \"${ARG_HEADER}\"\n\nasm(\"${section}\\n\"\n")
  set(declarations "")
  set(rows "")
  set(index 0)
  foreach(path file IN ZIP_LISTS ARG_PATHS ARG_FILES)
    set(symbol dtr_${name}_${index})
    if(EMSCRIPTEN)
      string(APPEND code "    \".type ${symbol},@object\\n.type ${symbol}_end,@object\\n\"\n")
    endif()
    string(APPEND code "    \"${symbol}: .incbin \\\"${file}\\\"\\n${symbol}_end:\\n\"\n")
    if(EMSCRIPTEN)
      string(APPEND code "    \".int8 0\\n.size ${symbol}, ${symbol}_end - ${symbol}\\n\"\n"
             "    \".size ${symbol}_end, 1\\n\"\n")
    endif()
    string(APPEND declarations "extern \"C\" const char ${symbol}[], ${symbol}_end[];\n")
    string(APPEND rows "      {\"${path}\", {${symbol}, ${symbol}_end}},\n")
    math(EXPR index "${index} + 1")
  endforeach()
  string(APPEND code "${after});\n\n${declarations}\nnamespace dtr {\n\n"
         "std::span<const EmbeddedFile> ${name}() {\n"
         "  static const EmbeddedFile kFiles[] = {\n${rows}  };\n  return kFiles;\n}\n\n"
         "}  // namespace dtr\n")
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  file(GENERATE OUTPUT ${source} CONTENT "${code}")
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${ARG_FILES}"
      SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${target} PRIVATE ${source})
endfunction()
