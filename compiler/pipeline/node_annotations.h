// The annotation of a float export in terms of its nodes: for a quantizer of PT2E, which inserts
// the observers itself.
#pragma once

#include <string>
#include <vector>

#include "compiler/pipeline/compile.h"
#include "compiler/quantizer/pattern.h"

namespace dtr {

// A tensor that nodes read, or the weight of a layer.
struct AnnotatedInput {
  std::vector<std::string> readers;  // nodes; those that do not take the tensor do not count
  std::string tensor;                // the node, input or constant
  int group = -1;                    // negative: the weight of a layer, quantized by its content
  bool per_channel = false;          // of a weight; else per tensor
};
// What a node computes.
struct AnnotatedResult {
  std::string node;
  int group = 0;
};
struct NodeAnnotations {
  std::vector<QuantSpec> groups;  // values of one group share a quantization
  std::vector<AnnotatedResult> results;
  std::vector<AnnotatedInput> inputs;
  // Nodes of several operators, such as attention, with a quantized value inside, which no
  // annotation of a node can express.
  std::vector<std::string> interior;
};

// Annotates a float model by the recipe's patterns. Errors: those of read_model and check_model;
// kQatQuantized (it is quantized already).
Result<NodeAnnotations> annotate_nodes(const ModelBytes& model, const CompileSettings& settings);

}  // namespace dtr
