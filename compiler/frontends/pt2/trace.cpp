#include "compiler/frontends/pt2/trace.h"

#include <algorithm>

namespace dtr::pt2 {
namespace {

bool is_inside_torch(std::string_view path) {
  if (path.starts_with("torch/")) return true;
  for (const std::string_view packages : {"site-packages/", "dist-packages/"}) {
    const size_t at = path.find(packages);
    if (at != std::string_view::npos && path.substr(at + packages.size()).starts_with("torch"))
      return true;  // torch, torchao, torchvision
  }
  return false;
}

}  // namespace

std::string module_path(std::string_view module_stack) {
  const size_t last = module_stack.rfind(';');
  std::string_view entry =
      last == std::string_view::npos ? module_stack : module_stack.substr(last + 1);
  const size_t start = entry.find(',');
  if (start == std::string_view::npos) return {};
  entry.remove_prefix(start + 1);
  entry = entry.substr(0, entry.find(','));
  for (const std::string_view self : {"L__self__", "L['self']"}) {
    if (!entry.starts_with(self)) continue;
    entry.remove_prefix(self.size());
    if (entry.starts_with('.')) entry.remove_prefix(1);
  }
  return std::string(entry);
}

std::vector<std::string> module_types(std::string_view module_stack) {
  std::vector<std::string> types;
  while (!module_stack.empty()) {
    const std::string_view entry = module_stack.substr(0, module_stack.find(';'));
    module_stack.remove_prefix(std::min(entry.size() + 1, module_stack.size()));
    const size_t path = entry.find(',');
    const size_t type = path == std::string_view::npos ? path : entry.find(',', path + 1);
    if (type != std::string_view::npos && type + 1 < entry.size())
      types.emplace_back(entry.substr(type + 1));
  }
  return types;
}

std::string source_line(std::string_view stack_trace) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  std::string innermost;
  std::string outside;
  for (size_t at = stack_trace.find(kFile); at != std::string_view::npos;
       at = stack_trace.find(kFile, at + 1)) {
    const std::string_view rest = stack_trace.substr(at + kFile.size());
    const size_t path_end = rest.find(kLine);
    if (path_end == std::string_view::npos) break;
    const std::string_view path = rest.substr(0, path_end);
    if (path.starts_with('<')) continue;  // code that torch.fx generated
    const std::string_view number = rest.substr(path_end + kLine.size());
    const std::string_view digits = number.substr(0, number.find_first_not_of("0123456789"));
    const std::string_view base = path.substr(path.rfind('/') + 1);
    innermost = std::string(base) + ":" + std::string(digits);
    if (!is_inside_torch(path)) outside = innermost;
  }
  return outside.empty() ? innermost : outside;
}

}  // namespace dtr::pt2
