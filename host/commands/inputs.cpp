#include "host/commands/inputs.h"

namespace dtr {

Result<std::unique_ptr<Session>> ProgramInput::open() const {
  return bytes.empty() ? Session::open(path, tensor_files, method)
                       : Session::load(bytes, path, simulator::best_kernel_set(), tensors, method);
}

Result<PteFile> ProgramInput::pte_file() const {
  DTR_ASSIGN(PteFile file, bytes.empty() ? PteFile::open(path) : PteFile::parse(bytes, path));
  DTR_TRY(file.select(method));
  return file;
}

Result<Module> ModelInput::read(const DimensionSizes& sizes) const {
  return bytes.empty() ? read_model(path, sizes)
                       : parse_model(bytes, kind_of(bytes), path, detached, sizes);
}

DimensionSizes DataInput::sizes() const {
  return {.sampled = in_memory() ? Samples::shapes_of(arrays, path) : Samples::shapes_of(path)};
}

Result<Samples> DataInput::bind(const Graph& graph) const {
  return in_memory() ? Samples::bind(graph, arrays, path) : Samples::read(graph, path);
}

}  // namespace dtr
