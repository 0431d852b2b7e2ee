// deuteron._deuteron: the library as Python calls it. deuteron/*.py is its typed face; nothing else
// imports this module.
#include <nanobind/nanobind.h>

#include "python/src/program.h"
#include "python/src/work.h"

NB_MODULE(_deuteron, module) {
  nanobind::set_leak_warnings(false);  // daemon threads may hold programs when the interpreter ends
  dtr::python::throw_failed_checks();
  dtr::python::forget_in_children();
  dtr::python::bind_program(module);
  dtr::python::bind_commands(module);
  dtr::python::bind_executorch(module);
}
