// Writes the seeds of the fuzz targets, made by the compiler as it is now, so that no format can
// move on and leave a seed behind that is refused:  fuzz_seeds FOLDER
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "compiler/pipeline/report.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/output_file.h"
#include "compiler/support/temporary_folder.h"
#include "device/pte/program_generated.h"
#include "host/firmware/firmware_folder.h"
#include "host/profiler/etdump.h"
#include "host/session/recorder.h"
#include "test/fuzz/resumed.h"
#include "test/fuzz/sample.h"

namespace {

using namespace dtr;

constexpr std::string_view kModels[] = {"image", "sequence"};
constexpr std::string_view kTargets[] = {"imxrt700", "cortex-m33", "cortex-m55", "executorch"};

// In place of what loading, preparing and recording took on this machine, which is not the same
// twice.
constexpr uint32_t kTime = 1000;
constexpr uint32_t kCostEvents = 16;

// What writes files; the first error ends it.
class Seeds {
 public:
  explicit Seeds(std::string folder) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
  }

  bool make() {
    for (const std::string_view model : kModels) {
      for (const std::string_view target : kTargets) program(model, target);
      write(fmt::format("{}_int8.pte", model),
            fuzz::compile_sample(model, "imxrt700", false, Io::kInt8).written.bytes);
      write(fmt::format("{}.ptd", model),
            fuzz::compile_sample(model, "cortex-m33", true).written.tensor_file);
      const Compilation sample = fuzz::compile_sample(model, "imxrt700");
      write(fmt::format("{}_calibration.json", model), to_json(*sample.calibration));
      write(fmt::format("{}_report.json", model), to_json(compile_report(sample)));
      verify_table(fmt::format("{}_verify.json", model), sample.written.bytes);
    }
    list_of_written();
    checkpoints();
    return good_;
  }

 private:
  void write(const std::string& name, std::span<const std::byte> bytes) {
    if (const Result<void> status = write_file(folder_ + "/" + name, bytes); !status)
      fail(status.error());
  }
  void write(const std::string& name, const std::string& text) {
    write(name, std::as_bytes(std::span(text)));
  }
  void fail(const Diagnostic& diagnostic) {
    fmt::print(stderr, "{}\n", to_text(diagnostic));
    good_ = false;
  }

  // The program, the payload of its partition, and what a run of it records.
  void program(std::string_view model, std::string_view target) {
    const std::string name = fmt::format("{}_{}", model, target);
    const std::vector<std::byte> pte = fuzz::compile_sample(model, target).written.bytes;
    write(name + ".pte", pte);
    const Result<std::unique_ptr<Session>> session = Session::load(pte, name);
    if (!session) return fail(session.error());
    Result<Trace> trace = record_zeros(**session);
    if (!trace) return fail(trace.error());
    for (TraceEvent& event : trace->load.events) event.start = kTime, event.end = 2 * kTime;
    trace->cost = {.event = kTime, .events = kCostEvents, .run = kTime};
    write(name + ".etdump", to_etdump(*trace));
    const pte::VerifiedFile& file = (*session)->pte_file().file();
    if (const auto* delegates = file.program().execution_plan()->Get(0)->delegates();
        delegates != nullptr && delegates->size() != 0)
      write(name + ".npu", file.payload(*delegates->Get(0)));
    records(name, **session);
  }

  // As `deuteron verify --json` writes it.
  void verify_table(const std::string& name, std::span<const std::byte> pte) {
    const Result<PteFile> pte_file = PteFile::parse(pte, name);
    if (!pte_file) return fail(pte_file.error());
    const TraceSource program = trace_source(*pte_file);
    write(name, fmt::format(R"({{"checksum": "{:08x}", "target": "{}", "layers": [
  {{"name": "stem", "op": "aten.convolution", "module_path": "stem.0", "source_line": "image.py:1", "fused": false, "where": "npu",
    "dtype": "i8", "sqnr_db": 43.125, "max_error": 0.0125, "steps": 1.5, "differing": 0.25}}
]}}
)",
                            program.checksum, program.target));
  }

  // Of a firmware project that fuzz_firmware writes again.
  void list_of_written() {
    const Result<TemporaryFolder> folder = TemporaryFolder::create();
    if (!folder) return fail(folder.error());
    const FirmwareFile files[] = {
        {"model/model.cpp", "a"}, {"model/model.h", "a"}, {"old/unused.h", "a"}};
    if (const auto changes = write_firmware(files, folder->path()); !changes)
      return fail(changes.error());
    const Result<FileContents> list =
        FileContents::read(fmt::format("{}/{}", folder->path(), kWrittenList));
    if (!list) return fail(list.error());
    write("written.txt", list->bytes());
  }

  // Of an evaluation that is done, and of one that ended within the write of its third result.
  void checkpoints() {
    const Result<TemporaryFolder> folder = TemporaryFolder::create();
    if (!folder) return fail(folder.error());
    const std::string path = folder->path() + "/checkpoint";
    if (const auto done = fuzz::evaluate_sample(path, false, nullptr); !done)
      return fail(done.error());
    const Result<FileContents> file = FileContents::read(path);
    if (!file) return fail(file.error());
    const std::vector<std::byte> input =
        fuzz::without_checksums({file->bytes().begin(), file->bytes().end()});
    write("image.checkpoint", input);
    write("image_part.checkpoint", std::span(input).first(input.size() * 2 / 3));
  }

  // profile.bin as a device writes it: the records of the start, then those of a run.
  void records(const std::string& name, Session& session) {
    std::vector<Tensor> inputs;
    for (const ValueId input : session.signature().inputs())
      inputs.emplace_back(session.signature().type(input).dtype,
                          session.signature().type(input).shape);
    std::vector<TensorView> views;
    for (const Tensor& input : inputs) views.push_back(input.view());
    Recording recording;
    recording.buffer.resize(1024);
    RunStats stats;
    if (const auto outputs = session.run(views, &stats, {.recording = &recording}); !outputs)
      return fail(outputs.error());
    std::vector<std::byte> bytes;
    const auto add = [&](npu::ProfileHeader header, std::span<const npu::ProfileRecord> block) {
      header.program = trace_source(session.pte_file()).checksum;
      header.records = static_cast<uint32_t>(block.size());
      const auto head = std::as_bytes(std::span(&header, 1)), body = std::as_bytes(block);
      bytes.insert(bytes.end(), head.begin(), head.end());
      bytes.insert(bytes.end(), body.begin(), body.end());
    };
    for (npu::ProfileRecord& record : recording.start) {
      npu::set_time(record.start, kTime);
      npu::set_time(record.stop, 2 * kTime);
    }
    recording.header.cost = kTime;
    recording.header.cost_events = kCostEvents;
    add(recording.header, recording.start);
    add(recording.header, recording.records());
    write(name + ".profile", bytes);
  }

  std::string folder_;
  bool good_ = true;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} FOLDER\n", argv[0]);
    return 2;
  }
  return Seeds(argv[1]).make() ? 0 : 1;
}
