// What commands read, from a file or from memory: a terminal gives paths, bindings have bytes and
// arrays.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/npz.h"
#include "compiler/ir/samples.h"
#include "compiler/pipeline/read_model.h"
#include "host/session/session.h"

namespace dtr {

struct ProgramInput {
  std::string path;                            // or, with bytes, a name for messages
  std::string method = {};                     // PteFile::select
  std::vector<std::string> tensor_files = {};  // .ptd
  std::span<const std::byte> bytes = {};       // of the .pte; empty: `path` is read
  std::span<const std::byte> tensors = {};     // beside them: of a .ptd

  // Errors: those of Session::open.
  Result<std::unique_ptr<Session>> open() const;
  // With its method chosen. Errors: those of PteFile.
  Result<PteFile> pte_file() const;
};

struct ModelInput {
  std::string path;                              // or, with bytes, a name for messages
  std::span<const std::byte> bytes = {};         // they outlive what is read; empty: `path` is read
  std::span<const DetachedBytes> detached = {};  // weights that are not in them

  bool given() const { return !path.empty(); }
  // Errors: those of read_model.
  Result<Module> read(const DimensionSizes& sizes = {}) const;
};

struct DataInput {
  std::string path;                          // .npz, .npy; or, with arrays, a name for messages
  std::span<const NamedTensor> arrays = {};  // they outlive what is bound to them

  bool in_memory() const { return arrays.data() != nullptr; }
  // For models with open dimensions.
  DimensionSizes sizes() const;
  // Errors: those of Samples::read and Samples::bind.
  Result<Samples> bind(const Graph& graph) const;
};

}  // namespace dtr
