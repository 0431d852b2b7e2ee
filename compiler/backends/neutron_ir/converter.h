// Calls an installed converter on a partition, and reads its result.
#pragma once

#include <optional>

#include "compiler/backends/neutron_ir/converter_log.h"
#include "compiler/backends/neutron_ir/neutron_ir.h"
#include "compiler/backends/neutron_ir/payload.h"

namespace dtr::neutron_ir {

struct Conversion {
  std::vector<std::byte> payload;
  std::optional<std::vector<LoggedKernel>> kernels;  // if the converter's log tells them
};

// Runs the converter in the current folder. The payload is for a delegate call whose arguments are
// the graph's inputs and outputs. Errors: kConverterFailed, with the converter's output;
// kConverterOutput; kFileNotWritable.
Result<Conversion> convert(const Graph& graph, std::span<const std::byte> model,
                           const std::string& target, const ConverterOptions& options);

// Extracts the payload from a converted model. Error: kConverterOutput.
Result<std::vector<std::byte>> payload_of(const Graph& graph, std::span<const std::byte> converted);

}  // namespace dtr::neutron_ir
