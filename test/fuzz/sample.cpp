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

Program read_sample(std::string_view model) {
  const std::string path = fmt::format("{}/{}.ir", DTR_FUZZ_MODELS, model);
  const FileContents file = must(FileContents::read(path));
  return must(parse_program({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path));
}

Sample compile_sample(std::string_view model, std::string_view target, bool external_constants) {
  Program program = read_sample(model);
  const CompileSettings settings{.target = find_target(target), .external_constants = external_constants, .threads = 1};
  const Samples samples = Samples::random(program.graphs.front(), 2);
  Sample sample;
  const ConversionReport conversion = must(quantize_program(program, settings, &samples, sample.calibration));
  sample.compiled = must(compile_program(program, settings, &conversion));
  return sample;
}

}  // namespace dtr::fuzz
