#include "host/commands/run_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "compiler/ir/reorder.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/output_file.h"
#include "device/executorch/neutron_payload.h"
#include "device/pte/program_generated.h"
#include "host/profiler/etdump.h"
#include "host/session/recorder.h"

namespace dtr {
namespace {

namespace fs = std::filesystem;

struct Sample {
  std::string name;  // folder of its outputs; "." for the output folder itself
  std::vector<std::string> files;
};

// The entries of a folder, by name.
Result<std::vector<std::string>> entries(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    found.push_back(at->path().string());
  if (error)
    return fail(DiagnosticId::kFileNotFound, "the folder cannot be read: " + error.message(), {},
                {.file = folder});
  std::ranges::sort(found);
  return found;
}

std::string last_part(const std::string& path) {
  const fs::path cleaned = fs::path(path).lexically_normal();
  return (cleaned.has_filename() ? cleaned : cleaned.parent_path()).filename().string();
}

Result<std::vector<Sample>> samples_of(const DatasetOptions& options) {
  std::vector<Sample> samples;
  if (!options.dataset.empty()) {
    DTR_ASSIGN(const std::vector<std::string> files, entries(options.dataset));
    if (files.empty())
      return fail(DiagnosticId::kDataCount, "the folder has no files",
                  "put a file for each sample into it", {.file = options.dataset});
    for (const std::string& file : files) samples.push_back({last_part(file), {file}});
    return samples;
  }
  const bool folders = std::ranges::all_of(options.inputs, [](const std::string& path) {
    std::error_code error;
    return fs::is_directory(path, error);
  });
  if (!folders) return std::vector<Sample>{{".", options.inputs}};
  for (const std::string& folder : options.inputs) {
    DTR_ASSIGN(std::vector<std::string> files, entries(folder));
    samples.push_back({last_part(folder), std::move(files)});
  }
  return samples;
}

// Converts an input from physical to logical order.
Result<Tensor> read_input(const Type& type, const std::string& path, size_t index) {
  DTR_ASSIGN(const FileContents file, FileContents::read(path));
  const std::span<const std::byte> bytes = file.bytes();
  Tensor tensor(type.dtype, type.shape);
  const auto elements = static_cast<size_t>(type.elements());
  if (bytes.size() == static_cast<size_t>(type.bytes())) {
    to_logical(type, bytes.data(), tensor.view().data);
  } else if (bytes.size() == elements && type.dtype == DType::kFloat32) {
    std::vector<float> values;
    for (const std::byte byte : bytes) values.push_back(std::to_integer<uint8_t>(byte));
    to_logical(type, std::as_bytes(std::span(values)).data(), tensor.view().data);
  } else {
    return fail(DiagnosticId::kDataShape,
                fmt::format("the file has {} bytes, input {} has {} elements of {} bytes",
                            bytes.size(), index, elements, byte_size(type.dtype)),
                "give the raw tensor of the program's input", {.file = path});
  }
  return tensor;
}

Result<std::vector<Tensor>> read_sample(const Session& session, const Sample& sample) {
  const Graph& signature = session.signature();
  if (sample.files.size() != signature.inputs().size())
    return fail(DiagnosticId::kDataCount,
                fmt::format("sample {} has {} files, the program takes {} inputs", sample.name,
                            sample.files.size(), signature.inputs().size()),
                "give a file for each input", {.file = session.pte_file().path()});
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < sample.files.size(); ++i) {
    DTR_ASSIGN(Tensor input, read_input(signature.type(signature.inputs()[i]), sample.files[i], i));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

Result<void> make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return {};
  return fail(DiagnosticId::kFileNotWritable, "the folder cannot be made: " + error.message(), {},
              {.file = path});
}

template <class T>
std::pair<size_t, double> largest(const Tensor& tensor) {
  const std::span<const T> values = tensor.view().template values<T>();
  const auto at = std::max_element(values.begin(), values.end());
  return {static_cast<size_t>(at - values.begin()), static_cast<double>(*at)};
}

// The index, in logical order, and value of the largest element.
std::optional<std::pair<size_t, double>> top_class(const Tensor& tensor) {
  if (tensor.bytes().empty()) return std::nullopt;
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return largest<float>(tensor);
    case DType::kInt8:
      return largest<int8_t>(tensor);
    case DType::kUint8:
      return largest<uint8_t>(tensor);
    case DType::kInt32:
      return largest<int32_t>(tensor);
    case DType::kInt64:
      return largest<int64_t>(tensor);
    default:
      return std::nullopt;
  }
}

// Whether a payload of the program records a profile.
bool records_profile(const PteFile& pte_file) {
  const auto* delegates = pte_file.plan().delegates();
  if (delegates == nullptr) return false;
  for (const pte::BackendDelegate* delegate : *delegates) {
    executorch::NeutronProgram payload;
    if (delegate->id()->string_view() == executorch::kNeutronDelegateName &&
        executorch::read_neutron_payload(pte_file.file().payload(*delegate), &payload) ==
            executorch::NeutronPayloadError::kNone &&
        payload.records_profile)
      return true;
  }
  return false;
}

}  // namespace

Result<size_t> run_dataset(const DatasetOptions& options,
                           const std::function<void(std::string_view)>& say) {
  constexpr size_t kMostEvents = 1 << 16;
  DTR_ASSIGN(const std::unique_ptr<Session> session, Session::open(options.model));
  say(fmt::format("Model file {} loaded", options.model));
  DTR_ASSIGN(const std::vector<Sample> samples, samples_of(options));
  std::optional<TraceRecorder> trace;
  if (records_profile(session->pte_file())) trace.emplace(*session, kMostEvents);
  DTR_TRY(make_folder(options.output));
  std::string classes;
  for (const Sample& sample : samples) {
    DTR_ASSIGN(const std::vector<Tensor> inputs, read_sample(*session, sample));
    std::vector<TensorView> views;
    for (const Tensor& input : inputs) views.push_back(input.view());
    RunStats stats;
    DTR_ASSIGN(const std::vector<Tensor> outputs,
               trace ? trace->run(views, stats) : session->run(views, &stats));
    say("Method executed successfully...");
    const std::string folder =
        sample.name == "." ? options.output : options.output + "/" + sample.name;
    DTR_TRY(make_folder(folder));
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Type type = session->output_type(i);
      std::vector<std::byte> physical(static_cast<size_t>(type.bytes()));
      to_physical(type, outputs[i].bytes().data(), physical.data());
      const std::string file = fmt::format("{}/{:04}.bin", folder, i);
      say(fmt::format("Saving file {}", file));
      DTR_TRY(write_file(file, physical));
    }
    if (options.dataset.empty() || outputs.size() != 1) continue;
    const auto top = top_class(outputs.front());
    if (!top) continue;
    say(fmt::format("Top1 class {} = {}", sample.name, top->first));
    say(fmt::format("Confidence = {:g}", top->second));
    classes += fmt::format("{} {} {:f} \n", sample.name, top->first, top->second);
  }
  if (!classes.empty()) {
    const std::string file = options.output + "/results.txt";
    std::error_code none;
    if (fs::exists(file, none)) {
      DTR_ASSIGN(const FileContents before, FileContents::read(file));
      classes.insert(0, reinterpret_cast<const char*>(before.bytes().data()),
                     before.bytes().size());
    }
    DTR_TRY(write_file(file, classes));
  }
  if (trace && !trace->empty())
    DTR_TRY(write_file(options.output + "/trace.etdump", to_etdump(trace->trace())));
  return samples.size();
}

}  // namespace dtr
