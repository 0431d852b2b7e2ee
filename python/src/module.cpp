// deuteron._deuteron: the library as Python calls it. deuteron/*.py is its typed face; nothing else
// imports this module.
#include <nanobind/nanobind.h>

#include "python/src/program.h"

NB_MODULE(_deuteron, module) {
  nanobind::set_leak_warnings(false);  // daemon threads may hold programs when the interpreter ends
  dtr::python::bind_program(module);
  dtr::python::bind_commands(module);
}
