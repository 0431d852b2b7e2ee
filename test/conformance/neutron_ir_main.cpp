// deuteron-neutron-ir MODEL FOLDER: writes CASE_K.tflite for each NPU partition of a model, and
// CASE_K.npz with inputs and what it should compute, for test/interop/neutron_ir.py. CASE is the
// name of the model's folder; calibration.npz beside a float model calibrates it.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "compiler/pipeline/read_model.h"
#include "compiler/support/output_file.h"
#include "test/conformance/neutron_ir.h"

namespace {

using namespace dtr;

Result<void> write_cases(const std::filesystem::path& model, const std::filesystem::path& folder) {
  std::vector<NamedTensor> arrays;
  std::optional<Samples> samples;
  if (model.filename() == "float.pt2") {
    const std::string data = model.parent_path() / "calibration.npz";
    DTR_ASSIGN(const Module module, read_model(model));
    DTR_ASSIGN(arrays, read_tensors(data));
    DTR_ASSIGN(samples, Samples::bind(module.forward(), arrays, data));
  }
  DTR_ASSIGN(std::vector<conformance::NeutronIrCase> cases,
             conformance::neutron_ir_cases(model, samples ? &*samples : nullptr));
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string base =
        folder / fmt::format("{}_{}", model.parent_path().filename().string(), i);
    DTR_TRY(write_file(base + ".tflite", cases[i].model));
    std::vector<NamedTensor> all;
    for (auto* list : {&cases[i].inputs, &cases[i].outputs, &cases[i].read_back})
      for (NamedTensor& array : *list) all.push_back(std::move(array));
    DTR_TRY(write_npz(base + ".npz", all));
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: deuteron-neutron-ir MODEL FOLDER\n");
    return 2;
  }
  const Result<void> status = write_cases(argv[1], argv[2]);
  if (!status) fmt::print(stderr, "{}\n", to_text(status.error()));
  return status ? 0 : 1;
}
