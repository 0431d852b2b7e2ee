// Quantization of inputs and outputs. A file of its own, so that firmware that does not ask for it
// does not link it.
#include "device/pte/io_quantization.h"
#include "device/runtime/deuteron_model.h"

namespace {

int tell(const dtr_model* model, bool output, uint32_t index, dtr_quantization* quantization) {
  const dtr::runtime::Model* found = dtr::runtime::opened(model);
  dtr::pte::IoQuantization told;
  if (found == nullptr || quantization == nullptr || found->program.method_count() == 0 ||
      !dtr::pte::io_quantization(found->program.file().program(), found->chosen, output, index,
                                 &told))
    return 0;
  *quantization = {static_cast<float>(told.scale), told.zero_point, told.minimum, told.maximum};
  return 1;
}

}  // namespace

int dtr_input_quantization(const dtr_model* model, uint32_t index, dtr_quantization* quantization) {
  return tell(model, false, index, quantization);
}

int dtr_output_quantization(const dtr_model* model, uint32_t index,
                            dtr_quantization* quantization) {
  return tell(model, true, index, quantization);
}
