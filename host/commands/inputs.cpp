#include "host/commands/inputs.h"

namespace dtr {

Result<std::unique_ptr<Session>> ProgramInput::open() const {
  return bytes.empty() ? Session::open(path, tensor_files)
                       : Session::load(bytes, path, simulator::best_kit(), tensors);
}

Result<ProgramImage> ProgramInput::image() const {
  return bytes.empty() ? ProgramImage::open(path) : ProgramImage::parse(bytes, path);
}

Result<Program> ModelInput::read() const {
  return bytes.empty() ? read_model(path) : parse_model(bytes, kind_of(bytes), path);
}

Result<Samples> DataInput::bind(const Graph& graph) const {
  return in_memory() ? Samples::bind(graph, arrays, path) : Samples::read(graph, path);
}

}  // namespace dtr
