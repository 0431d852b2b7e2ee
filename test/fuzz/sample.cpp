#include "test/fuzz/sample.h"

#include <fmt/format.h>

#include "compiler/ir/parser.h"
#include "compiler/support/file_contents.h"

namespace dtr::fuzz {
namespace {

template <class T>
T must(Result<T> result) {
  if (!result) fmt::print(stderr, "{}\n", to_text(result.error()));
  DTR_CHECK(result.has_value());
  return std::move(*result);
}

}  // namespace

Module read_sample(std::string_view model) {
  const std::string path = fmt::format("{}/{}.ir", DTR_FUZZ_MODELS, model);
  const FileContents file = must(FileContents::read(path));
  return must(parse_module(
      {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path));
}

Compilation compile_sample(std::string_view model, std::string_view target, bool external_constants,
                           Io io) {
  return must(compile_model(read_sample(model), {.target = find_target(target),
                                                 .samples = NoiseSamples{2},
                                                 .io = io,
                                                 .external_constants = external_constants,
                                                 .threads = 1}));
}

}  // namespace dtr::fuzz
