#include "host/accuracy/search_tasks.h"

#include "compiler/quantizer/calibration.h"
#include "device/numerics/crc32.h"

namespace dtr {

ModelSource copy_of(const ModelSource& source) {
  if (const auto* path = std::get_if<std::string>(&source)) return *path;
  DTR_CHECK(std::holds_alternative<ModelBytes>(source));
  return std::get<ModelBytes>(source);
}

uint32_t float_fingerprint(const Compilation& made) {
  if (!made.calibration) return 0;
  const std::string text = to_json(*made.calibration);
  return crc32(std::as_bytes(std::span(text)));
}

Result<void> check_same_floats(uint32_t first, uint32_t other) {
  if (first == other) return {};
  return fail(DiagnosticId::kProcessFailed,
              "processors of different kinds round floating-point numbers differently: what the "
              "search finds would depend on who compiles which program",
              "run it on machines of one kind, or let ONEDNN_MAX_CPU_ISA be what all of them have");
}

}  // namespace dtr
