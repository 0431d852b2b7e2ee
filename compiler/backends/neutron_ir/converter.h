// Calls an installed converter on a partition, and reads its result.
#pragma once

#include "compiler/backends/neutron_ir/neutron_ir.h"
#include "compiler/backends/neutron_ir/payload.h"

namespace dtr::neutron_ir {

// Runs the converter in the current folder. Returns the payload for a delegate call whose arguments
// are the graph's inputs and outputs. Errors: kConverterFailed, with the converter's output;
// kConverterOutput; kFileNotWritable.
Result<std::vector<std::byte>> convert(const Graph& graph, std::span<const std::byte> model,
                                       const std::string& target, const ConverterOptions& options);

// Extracts the payload from a converted model. Error: kConverterOutput.
Result<std::vector<std::byte>> payload_of(const Graph& graph, std::span<const std::byte> converted);

}  // namespace dtr::neutron_ir
