// Reads a prepared export as `compile` will, to tell what training leaves in float.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compiler/pipeline/compile.h"
#include "compiler/quantizer/annotate.h"

namespace dtr {

// The nodes of the prepared export that run in float when it is compiled, although `annotation`, of
// the graph of `module`, quantizes them: between the operators of such a node is a value that has
// no fake quantization. In the order of the file. Errors: those of parse_pt2 and of the passes.
Result<std::vector<const SourceOp*>> find_float_in_training(const Module& module,
                                                            const Annotation& annotation,
                                                            std::span<const std::byte> prepared,
                                                            const CompileSettings& settings);

}  // namespace dtr
