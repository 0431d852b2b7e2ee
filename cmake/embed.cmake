# dtr_embed(TARGET HEADER folder/name.h PATHS path… FILES file…): `std::span<const EmbeddedFile>
# dtr::name()`, which HEADER declares, with each FILE under its PATH.
function(dtr_embed target)
  cmake_parse_arguments(ARG "" "HEADER" "PATHS;FILES" ${ARGN})
  get_filename_component(name ${ARG_HEADER} NAME_WE)
  set(code "#include \"${ARG_HEADER}\"\n\nasm(\".section .rodata\\n\"\n")
  set(declarations "")
  set(rows "")
  set(index 0)
  foreach(path file IN ZIP_LISTS ARG_PATHS ARG_FILES)
    set(symbol dtr_${name}_${index})
    string(APPEND code "    \"${symbol}: .incbin \\\"${file}\\\"\\n${symbol}_end:\\n\"\n")
    string(APPEND declarations "extern \"C\" const char ${symbol}[], ${symbol}_end[];\n")
    string(APPEND rows "      {\"${path}\", {${symbol}, ${symbol}_end}},\n")
    math(EXPR index "${index} + 1")
  endforeach()
  string(APPEND code "    \".text\\n\");\n\n${declarations}\nnamespace dtr {\n\n"
         "std::span<const EmbeddedFile> ${name}() {\n"
         "  static const EmbeddedFile kFiles[] = {\n${rows}  };\n  return kFiles;\n}\n\n"
         "}  // namespace dtr\n")
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  file(GENERATE OUTPUT ${source} CONTENT "${code}")
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${ARG_FILES}"
      SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${target} PRIVATE ${source})
endfunction()
