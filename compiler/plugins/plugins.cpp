#include "compiler/plugins/plugins.h"

#include <fmt/format.h>
#ifndef __EMSCRIPTEN__
#include <dlfcn.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <mutex>

#include "compiler/plugins/kernel_header.h"
#include "compiler/support/encode.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/output_file.h"
#include "compiler/support/process.h"
#include "compiler/support/temporary_folder.h"

namespace dtr {
namespace {

constexpr size_t kMostPlugins = 64;
constexpr const char* kEntry = "dtr_plugin_entry";

// Grows only: readers need no lock.
struct Registry {
  std::mutex writing;
  std::atomic<size_t> count = 0;
  std::array<const dtr_plugin*, kMostPlugins> plugins{};
  std::array<PluginFile, kMostPlugins> files;
};

Registry& registry() {
  static Registry all;
  return all;
}

tl::unexpected<Diagnostic> invalid(const std::string& file, std::string reason, std::string fix) {
  return fail(DiagnosticId::kPluginInvalid, std::move(reason), std::move(fix), {.file = file});
}

std::span<const dtr_kernel> kernels_of(const dtr_plugin& plugin) {
  return {plugin.kernels, plugin.kernel_count};
}

// The plug-in that has a kernel, and the kernel; null if none has.
std::pair<const PluginFile*, const dtr_kernel*> find(std::string_view name) {
  for (const PluginFile& file : std::span(registry().files).first(registry().count))
    for (const dtr_kernel& kernel : kernels_of(*file.plugin))
      if (name == kernel.name) return {&file, &kernel};
  return {};
}

Result<void> check_table(const dtr_plugin* plugin, const std::string& file) {
  if (plugin == nullptr ||
      (plugin->abi == DTR_PLUGIN_ABI && plugin->kernel_count > 0 && plugin->kernels == nullptr))
    return invalid(file, fmt::format("{} returns no table of kernels", kEntry),
                   "return the address of a dtr_plugin");
  if (plugin->abi != DTR_PLUGIN_ABI)
    return invalid(file,
                   fmt::format("it was built for version {} of deuteron_kernel.h, this is version "
                               "{}",
                               plugin->abi, DTR_PLUGIN_ABI),
                   "compile it again with the header of this Deuteron");
  const std::span<const dtr_kernel> kernels = kernels_of(*plugin);
  for (size_t i = 0; i < kernels.size(); ++i) {
    const char* const name = kernels[i].name;
    if (name == nullptr || *name == '\0' || kernels[i].function == nullptr)
      return invalid(file, fmt::format("its kernel {} has no name or no function", i),
                     "give each dtr_kernel both");
    const bool twice = std::ranges::any_of(kernels.first(i), [&](const dtr_kernel& other) {
      return std::string_view(other.name) == name;
    });
    const PluginFile* const other = find_plugin_file(name);
    if (twice || other != nullptr)
      return invalid(file,
                     terminal_format("it has the kernel `{}`{}", name,
                                     twice ? " twice" : ", which is in " + other->file + " too"),
                     "give each operator one kernel");
  }
  return {};
}

#ifndef __EMSCRIPTEN__
std::string text_of(const FileContents& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// Sanitizers name functions of a library when the process ends: it stays loaded.
Result<const dtr_plugin*> open_library(const std::string& library, const std::string& file) {
  void* const handle = dlopen(std::filesystem::absolute(library).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return invalid(file, terminal_format("it cannot be loaded: {}", dlerror()),
                   "give a shared library for this machine, or its C source (.c)");
  void* const entry = dlsym(handle, kEntry);
  if (entry == nullptr)
    return invalid(file, fmt::format("it has no function `{}`", kEntry),
                   "export it as device/runtime/deuteron_kernel.h declares it");
  return reinterpret_cast<const dtr_plugin* (*)()>(entry)();
}

Result<const dtr_plugin*> compile_source(const std::string& source, const std::string& file) {
  using namespace std::chrono_literals;
  DTR_ASSIGN(const TemporaryFolder folder, TemporaryFolder::create());
  const auto put = [&](const std::string& name, std::string_view text) -> Result<void> {
    std::error_code none;
    const std::filesystem::path path = std::filesystem::path(folder.path()) / name;
    std::filesystem::create_directories(path.parent_path(), none);
    return write_file(path.string(), std::as_bytes(std::span(text)));
  };
  for (const EmbeddedFile& header : kernel_header())
    DTR_TRY(put(std::string(header.path), header.text));
  DTR_TRY(put("plugin.c", source));
  const Result<ProcessResult> compiled =
      run_process({"cc", "-std=c99", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-I.", "-o",
                   "plugin.so", "plugin.c", "-lm"},
                  folder.path(), 300s);
  if (!compiled)
    return invalid(file, "a C source needs the compiler `cc`, which does not start",
                   "install gcc, or give a shared library");
  if (compiled->exit_code != 0)
    return invalid(file, "`cc -std=c99` cannot compile it" + end_of_output(compiled->output),
                   "a source includes device/runtime/deuteron_kernel.h and headers of C alone");
  return open_library(folder.path() + "/plugin.so", file);
}
#endif

}  // namespace

Result<void> add_plugin(const dtr_plugin* plugin, const std::string& file, std::string source) {
  Registry& all = registry();
  const std::scoped_lock lock(all.writing);
  DTR_TRY(check_table(plugin, file));
  const size_t at = all.count;
  if (at == kMostPlugins)
    return invalid(file, fmt::format("there are {} plug-ins already", kMostPlugins),
                   "put several kernels in one plug-in");
  all.plugins[at] = plugin;
  all.files[at] = {plugin, file, std::move(source)};
  all.count = at + 1;
  return {};
}

Result<void> load_plugin(const std::string& path) {
#ifdef __EMSCRIPTEN__
  return invalid(path, "a page in a browser loads no plug-ins", "use the command `deuteron`");
#else
  DTR_ASSIGN(const FileContents file, FileContents::read(path));
  const bool is_source = path.ends_with(".c");
  const std::string source = is_source ? text_of(file) : std::string();
  const auto loaded = std::span(registry().files).first(registry().count);
  const auto same = std::ranges::find(loaded, path, &PluginFile::file);
  if (same != loaded.end() && same->source == source) return {};
  DTR_ASSIGN(const dtr_plugin* const plugin,
             is_source ? compile_source(source, path) : open_library(path, path));
  return add_plugin(plugin, path, source);
#endif
}

std::span<const dtr_plugin* const> plugins() {
  return std::span(registry().plugins).first(registry().count);
}

const PluginFile* find_plugin_file(std::string_view kernel) { return find(kernel).first; }
const dtr_kernel* find_plugin_kernel(std::string_view name) { return find(name).second; }

std::string plugin_remedy(std::string_view kernel) {
  return fmt::format(
      "Give a plug-in that has the kernel `{}`: --plugin KERNEL.c, a C source with "
      "device/runtime/deuteron_kernel.h, or --plugin LIBRARY.so (docs/plugins.md)",
      kernel);
}

}  // namespace dtr
