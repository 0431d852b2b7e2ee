// Reads what NXP's converter prints of a model, to find the operators that each kernel computes.
// The form is the one that ExecuTorch's NXP backend reads (its neutron_map.py): behind
// "= Extract Graphs =" the parts of each graph with their kernels, behind the second "Graphs:" the
// operators of each part with the names of their tensors.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/frontends/tflite/model_file.h"

namespace dtr::neutron_ir {

struct LoggedKernel {
  std::string name;               // "Conv2d"; plain text
  std::vector<size_t> operators;  // of the model, by index, sorted; all of the kernel's part
};

// The kernels in the order of their events. std::nullopt: the log has another form, names no
// kernel, or no operator of the model in it is found.
std::optional<std::vector<LoggedKernel>> read_converter_log(std::string_view log,
                                                            const tflite::ModelFile& model);

}  // namespace dtr::neutron_ir
