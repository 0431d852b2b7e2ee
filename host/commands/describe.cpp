#include "host/commands/describe.h"

#include <fmt/format.h>

#include <utility>

#include "compiler/backends/neutron_ir/payload.h"
#include "compiler/frontends/onnx/onnx.h"
#include "compiler/frontends/pt2/describe.h"
#include "compiler/frontends/tflite/tflite.h"
#include "compiler/ir/npz.h"
#include "compiler/pipeline/read_model.h"
#include "compiler/program/describe.h"
#include "compiler/program/machine.h"
#include "compiler/support/encode.h"
#include "device/pte/program_generated.h"
#include "host/commands/traced_profile.h"
#include "host/profiler/etdump.h"
#include "host/profiler/explain.h"
#include "host/session/recorder.h"
#include "host/simulator/array_calls.h"
#include "host/simulator/listing.h"

namespace dtr {
namespace {

// Shape, dtype and range of every array. An array whose elements no tensor can hold gets a line
// with the reason; a damaged one is an error.
Result<std::string> describe_arrays(const std::vector<ReadArray>& arrays) {
  std::string text;
  for (const ReadArray& array : arrays) {
    if (!array.tensor && array.tensor.error().id == DiagnosticId::kNpyUnsupported) {
      text += terminal_format("{:<20} {}\n", array.name, array.tensor.error().reason);
      continue;
    }
    DTR_TRY(array.tensor);
    const Tensor& tensor = *array.tensor;
    text += terminal_format("{:<20} {:<5} {:<20} {:>10} bytes", array.name, name(tensor.dtype()),
                            to_string(tensor.shape()), tensor.bytes().size());
    if (tensor.dtype() == DType::kFloat32 && tensor.elements() > 0) {
      const auto values = tensor.values<float>();
      float low = values[0], high = values[0];
      for (const float value : values) {
        low = value < low ? value : low;
        high = value > high ? value : high;
      }
      text += fmt::format("  {:.6g} … {:.6g}{}", low, high,
                          find_non_finite(tensor.view()) >= 0 ? ", not all finite" : "");
    }
    text += '\n';
  }
  return text;
}

// The calls of the MAC array in the program's delegates.
AdvisedCalls advised_calls(const PteFile& pte_file, const npu::Target& target) {
  AdvisedCalls advised;
  const pte::ExecutionPlan& plan = pte_file.plan();
  const auto* instructions = plan.chains()->Get(0)->instructions();
  for (uint32_t i = 0; instructions != nullptr && i < instructions->size(); ++i) {
    const auto* call = instructions->Get(i)->instr_args_as_DelegateCall();
    if (call == nullptr) continue;
    const pte::BackendDelegate& delegate =
        *plan.delegates()->Get(static_cast<uint32_t>(call->delegate_index()));
    if (delegate.id()->string_view() != pte::kDelegateId) continue;
    for (simulator::ArrayCall& found :
         simulator::array_calls(target, pte_file.file().payload(delegate))) {
      const auto command = static_cast<int32_t>(found.command);
      advised[{static_cast<int32_t>(i), command}] = std::move(found);
    }
  }
  return advised;
}

}  // namespace

std::string describe(const PteFile& pte_file) {
  const auto target = target_of(pte_file);
  const auto describe_payload = [&](std::string_view delegate, std::span<const std::byte> payload) {
    if (delegate == kNeutronDelegateId) return describe_neutron_payload(payload);
    if (delegate != pte::kDelegateId) return std::string();
    return target ? simulator::list_payload(npu_of(*target), payload)
                  : fmt::format("; not listed: {}\n", target.error().reason);
  };
  return describe_program(pte_file, {.describe_payload = describe_payload});
}

Result<std::string> describe_file(const std::string& path) {
  DTR_ASSIGN(const FileKind kind, file_kind(path));
  Result<std::string> text;
  switch (kind) {
    case FileKind::kPt2:
      text = pt2::describe_pt2(path);
      break;
    case FileKind::kTflite:
      text = tflite::describe_tflite(path);
      break;
    case FileKind::kOnnx:
      text = onnx::describe_onnx(path);
      break;
    case FileKind::kProgram: {
      DTR_ASSIGN(const PteFile pte_file, PteFile::open(path));
      text = describe(pte_file);
      break;
    }
    case FileKind::kTensorFile: {
      DTR_ASSIGN(const PtdFile tensor_file, PtdFile::open(path));
      text = describe_tensor_file(tensor_file);
      break;
    }
    case FileKind::kTrace: {
      DTR_ASSIGN(const Trace trace, read_etdump(path));
      text = describe_trace(trace);
      break;
    }
    case FileKind::kArrays: {
      DTR_ASSIGN(const std::vector<ReadArray> arrays, read_each_array(path));
      text = describe_arrays(arrays);
      break;
    }
    case FileKind::kRecords:
      text = fail(
          DiagnosticId::kTraceProgram, "it holds records of a device, which name no operators",
          "show them with their program: deuteron profile FILE --program M.pte", {.file = path});
      break;
    case FileKind::kText:
    case FileKind::kUnknown:
      text = fail(DiagnosticId::kModelUnknown,
                  "the file is none of the kinds that Deuteron reads or writes",
                  "give a .pt2, .tflite, .onnx, .pte, .ptd, .etdump, .npz or .npy file",
                  {.file = path});
  }
  return text;
}

Result<std::string> explain_program(Session& session, const std::string& name, size_t most) {
  if (session.pte_file().debug_map() == nullptr)
    return fail(DiagnosticId::kPteDebugMap,
                "the program has no debug map, which names the operators of its calls",
                "compile it without --no-debug-map", {.file = session.pte_file().path()});
  DTR_ASSIGN(const Trace trace, record_zeros(session));
  const Profile profile = profile_of(trace, session.pte_file());
  DTR_ASSIGN(const TargetDescription* target, target_of(session.pte_file()));
  std::string text = explain_text(profile, &session.pte_file(),
                                  advised_calls(session.pte_file(), npu_of(target)), name, most);
  if (text.empty() && name.empty()) return std::string("the program calls no operator\n");
  if (text.empty())
    return fail(
        DiagnosticId::kNodeUnknown,
        fmt::format("no operator of the program has `{}` in its name, module or kernel", name),
        "deuteron profile lists them", {.file = session.pte_file().path()});
  return text;
}

}  // namespace dtr
