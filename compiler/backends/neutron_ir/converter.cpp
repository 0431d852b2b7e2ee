#include "compiler/backends/neutron_ir/converter.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "compiler/frontends/tflite/model_file.h"
#include "compiler/support/encode.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/output_file.h"
#include "compiler/support/process.h"
#include "compiler/support/temporary_folder.h"
#include "compiler/support/text.h"

namespace dtr::neutron_ir {
namespace {

constexpr std::string_view kOperator = "CUSTOM(NeutronGraph)";
constexpr size_t kBlocks = 3;  // microcode, weights, kernels: the last inputs of the operator
constexpr size_t kMostOperands = 255;

tl::unexpected<Diagnostic> failed(const std::string& command, std::string_view how,
                                  const std::string& output) {
  return fail(DiagnosticId::kConverterFailed,
              terminal_format("`{}` {}", command, how) + end_of_output(output),
              "run it by hand on the model that --keep-neutron-ir FOLDER keeps", {});
}

tl::unexpected<Diagnostic> bad(std::string reason) {
  return fail(DiagnosticId::kConverterOutput, "the converted model " + std::move(reason),
              "use a converter of NXP's eIQ Neutron SDK; --keep-neutron-ir FOLDER leaves what it "
              "read and wrote",
              {});
}

// Name of a value as a file name.
std::string file_name(const Graph& graph) {
  std::string name = graph.value(graph.outputs().front()).name;
  std::ranges::replace_if(
      name, [](char letter) { return letter == '/' || letter == '\0' || letter == '\\'; }, '_');
  return name;
}

// Operands of the operator, by the names of the model's inputs or outputs: which argument of the
// delegate call each is.
Result<std::vector<NeutronOperand>> operands(const Graph& graph, std::span<const ValueId> arguments,
                                             const tflite::ModelFile& file,
                                             std::span<const int32_t> tensors,
                                             std::string_view what) {
  std::vector<NeutronOperand> found;
  for (const int32_t index : tensors) {
    if (index < 0) return bad(fmt::format("lacks an {} of its operator", what));
    const std::string& name = file.tensors[static_cast<size_t>(index)].name;
    const auto at = std::ranges::find_if(
        arguments, [&](ValueId value) { return graph.value(value).name == name; });
    if (at == arguments.end())
      return bad(fmt::format("has an operator with the {} `{}`, which the partition does not have",
                             what, name));
    found.push_back({.channels_last = graph.type(*at).layout == Layout::kChannelsLast &&
                                      graph.type(*at).rank() >= 3,
                     .argument = static_cast<uint8_t>(at - arguments.begin())});
  }
  if (found.size() != arguments.size())
    return bad(fmt::format("has an operator with {} {}s of the partition's {}", found.size(), what,
                           arguments.size()));
  return found;
}

}  // namespace

Result<std::vector<std::byte>> payload_of(const Graph& graph,
                                          std::span<const std::byte> converted) {
  Result<tflite::ModelFile> file = tflite::ModelFile::open(converted, "converted.tflite");
  if (!file) return bad("cannot be read: " + file.error().reason);
  if (file->operators.size() != 1) {
    std::vector<std::string> names;
    for (const tflite::OperatorInfo& op : file->operators) names.push_back(op.name);
    return fail(DiagnosticId::kConverterOutput,
                fmt::format("the converter left {} operators instead of 1: {}", names.size(),
                            fmt::join(names, ", ")),
                "keep what it does not convert off the NPU: --keep-off", {});
  }
  const tflite::OperatorInfo& op = file->operators.front();
  if (op.name != kOperator)
    return bad(fmt::format("has the operator {} instead of {}", op.name, kOperator));
  if (op.inputs.size() < kBlocks)
    return bad(fmt::format("has an operator with {} inputs", op.inputs.size()));
  const std::span<const int32_t> inputs(op.inputs.data(), op.inputs.size() - kBlocks);
  std::span<const std::byte> blocks[kBlocks];
  for (size_t i = 0; i < kBlocks; ++i) {
    const int32_t index = op.inputs[inputs.size() + i];
    if (index < 0 || !file->tensors[static_cast<size_t>(index)].constant())
      return bad(fmt::format("has no data for input {} of its operator", inputs.size() + i));
    blocks[i] = file->tensors[static_cast<size_t>(index)].data;
  }
  // Behind the results: scratch; and with version 1 profile and debug buffers.
  const size_t results = graph.outputs().size();
  if (op.outputs.size() != results + 1 && op.outputs.size() != results + 3)
    return bad(fmt::format("has an operator with {} outputs for {} of the partition",
                           op.outputs.size(), results));
  NeutronPayload payload{.input_arguments = static_cast<uint8_t>(graph.inputs().size()),
                         .version = static_cast<uint8_t>(op.outputs.size() == results + 1 ? 0 : 1),
                         .microcode = blocks[0],
                         .weights = blocks[1],
                         .kernels = blocks[2]};
  DTR_ASSIGN(payload.inputs, operands(graph, graph.inputs(), *file, inputs, "input"));
  DTR_ASSIGN(payload.outputs, operands(graph, graph.outputs(), *file,
                                       std::span(op.outputs).first(results), "output"));
  std::vector<std::byte> packed = pack(payload);
  if (const Result<NeutronPayload> read = parse_neutron_payload(packed); !read)
    return bad("makes no payload: " + read.error().reason);
  return packed;
}

Result<Conversion> convert(const Graph& graph, std::span<const std::byte> model,
                           const std::string& target, const ConverterOptions& options) {
  if (std::max(graph.inputs().size(), graph.outputs().size()) > kMostOperands)
    return fail(
        DiagnosticId::kConverterFailed,
        fmt::format("a payload has at most {} inputs and outputs; the partition has {} and {}",
                    kMostOperands, graph.inputs().size(), graph.outputs().size()),
        "keep a part of the model off the NPU: --keep-off", {});
  for (const auto& list : {graph.inputs(), graph.outputs()})
    for (const ValueId id : list)
      if (const Type& type = graph.type(id);
          type.layout == Layout::kChannelsLast && type.shape[1] == 1)
        return fail(
            DiagnosticId::kConverterFailed,
            fmt::format("`{}` has one channel in channels-last layout, which NXP's runtime refuses",
                        graph.value(id).name),
            "keep the operator that makes or reads it off the NPU: --keep-off",
            {.node = graph.value(id).name});
  std::optional<std::vector<std::string>> said = shell_words(options.command);
  if (!said || said->empty())
    return failed(options.command, said ? "names no program" : "has a quote without its end", {});
  std::vector<std::string>& words = *said;
  DTR_ASSIGN(const TemporaryFolder folder, TemporaryFolder::create());
  std::string before = folder.path() + "/neutron_ir.tflite",
              after = folder.path() + "/converted.tflite";
  if (!options.keep.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.keep, error);  // if that fails, writing does too
    const std::filesystem::path base = std::filesystem::absolute(options.keep) / file_name(graph);
    before = base.string() + ".tflite";
    after = base.string() + ".converted.tflite";
    std::filesystem::remove(after, error);
  }
  DTR_TRY(write_file(before, model));
  for (const std::string& word : {std::string("--input"), before, std::string("--output"), after,
                                  std::string("--target"), target})
    words.push_back(word);
  const Result<ProcessResult> done = run_process(words, ".", options.limit);
  if (!done)
    return fail(DiagnosticId::kConverterFailed, "the converter " + done.error().reason,
                "give its path, or put its folder into PATH", {});
  if (done->timed_out)
    return failed(options.command, fmt::format("did not end within {} s", options.limit.count()),
                  done->output);
  if (done->exit_code != 0)
    return failed(
        options.command,
        done->exit_code < 0 ? "crashed" : fmt::format("failed with exit code {}", done->exit_code),
        done->output);
  const Result<FileContents> converted = FileContents::read(after);
  if (!converted) return failed(options.command, "wrote nothing", done->output);
  DTR_ASSIGN(std::vector<std::byte> payload, payload_of(graph, converted->bytes()));
  DTR_ASSIGN(const tflite::ModelFile file, tflite::ModelFile::open(model, before));
  return Conversion{std::move(payload), read_converter_log(done->output, file)};
}

}  // namespace dtr::neutron_ir
