// An installed converter, and what it makes of a partition.
#pragma once

#include "compiler/backends/neutron_ir/neutron_ir.h"
#include "compiler/backends/neutron_ir/payload.h"

namespace dtr::neutron_ir {

// Calls it in the folder that we are in. The bytes of the payload for a delegate call with the
// graph's inputs and outputs as arguments. Errors: kConverterFailed, with its own words;
// kConverterOutput; kFileNotWritable.
Result<std::vector<std::byte>> convert(const Graph& graph, std::span<const std::byte> model,
                                       const std::string& target, const ConverterOptions& options);

// The payload of a converted model. Errors: kConverterOutput.
Result<std::vector<std::byte>> payload_of(const Graph& graph, std::span<const std::byte> converted);

}  // namespace dtr::neutron_ir
