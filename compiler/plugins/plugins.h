// Plug-ins of the user: kernels in C for operators that Deuteron does not know
// (device/runtime/deuteron_kernel.h). What is loaded stays until the process ends: importers,
// executors and sessions look kernels up by name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/result.h"
#include "device/runtime/deuteron_kernel.h"

namespace dtr {

// Loads a shared library, or compiles a C source (.c) with this machine's `cc` and loads that. A
// file that is loaded already, unchanged, is not loaded again. Errors: kFileNotFound;
// kPluginInvalid, if it cannot be compiled or loaded, or its table breaks a rule of add_plugin.
Result<void> load_plugin(const std::string& path);

// Adds a table that must outlive the process's use of it; `file` names it in messages, `source` is
// its C source, empty if that is not known. Error: kPluginInvalid, for another ABI, a kernel
// without name or function, a name that is taken, and for too many plug-ins.
Result<void> add_plugin(const dtr_plugin* plugin, const std::string& file, std::string source = {});

// All that are loaded, in the order of loading.
std::span<const dtr_plugin* const> plugins();
// nullptr if no plug-in has it.
const dtr_kernel* find_plugin_kernel(std::string_view name);
// Of the plug-in that has a kernel: its file and C source.
struct PluginFile {
  const dtr_plugin* plugin;
  std::string file, source;
};
const PluginFile* find_plugin_file(std::string_view kernel);

// "--plugin KERNEL.c (docs/plugins.md) with …": what lets an operator without a kernel run.
std::string plugin_remedy(std::string_view kernel);

}  // namespace dtr
