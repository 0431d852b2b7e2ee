// converter-stand-in [MODE] --input FILE --output FILE --target NAME: stands in for NXP's converter
// in tests. It converts nothing: the model that it is given becomes the weights of one
// NeutronGraph, behind microcode that has nothing but its header. MODE is how it misbehaves: fail,
// hang, rubbish, nothing, two (operators), another-name, no-blocks; or `profile`: a payload of
// version 1.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "compiler/frontends/tflite/model_file.h"
#include "compiler/support/file_contents.h"

namespace {

using namespace dtr;
namespace fb = tflite::fb;

std::vector<uint8_t> microcode(size_t weights, size_t inputs, size_t outputs, bool profile) {
  std::vector<uint32_t> words(16);
  words[0] = 0x64434D6E;
  words[6] = static_cast<uint32_t>(words.size() * sizeof(uint32_t));
  words[7] = static_cast<uint32_t>(weights);
  words[9] = 4096;  // scratch
  const size_t at = profile ? 13 : 11;
  if (profile) words[10] = 64, words[11] = 32;
  words[profile ? 12 : 10] = 128;  // scratch in SRAM
  words[at] = static_cast<uint32_t>(inputs);
  words[at + 1] = static_cast<uint32_t>(outputs);
  std::vector<uint8_t> bytes(words.size() * sizeof(uint32_t));
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

class Wrapper {
 public:
  explicit Wrapper(const std::string& mode) : mode_(mode) {}

  std::vector<uint8_t> wrap(const tflite::ModelFile& model, std::span<const std::byte> file) {
    for (const int32_t index : model.inputs)
      inputs_.push_back(copy(model.tensors[static_cast<size_t>(index)]));
    for (const int32_t index : model.outputs)
      outputs_.push_back(copy(model.tensors[static_cast<size_t>(index)]));
    const bool profile = mode_ == "profile";
    std::vector<int32_t> operands = inputs_, results = outputs_;
    const std::vector<uint8_t> code =
        microcode(file.size(), inputs_.size(), outputs_.size(), profile);
    const std::vector<uint8_t> weights(reinterpret_cast<const uint8_t*>(file.data()),
                                       reinterpret_cast<const uint8_t*>(file.data()) + file.size());
    const std::vector<uint8_t> kernels{1, 2, 3};
    for (const auto& [name, bytes] :
         {std::pair("microcode", code), {"weights", weights}, {"kernels", kernels}})
      operands.push_back(add(name, fb::TensorType::UINT8, {static_cast<int32_t>(bytes.size())},
                             mode_ == "no-blocks" ? std::vector<uint8_t>() : bytes));
    results.push_back(add("scratch", fb::TensorType::UINT8, {4096}, {}));
    if (profile) {
      results.push_back(add("profile", fb::TensorType::UINT8, {64}, {}));
      results.push_back(add("debug", fb::TensorType::UINT8, {32}, {}));
    }
    return finish(operands, results);
  }

 private:
  int32_t copy(const tflite::TensorInfo& tensor) {
    return add(mode_ == "another-name" ? tensor.name + "_2" : tensor.name, tensor.type,
               {tensor.shape.begin(), tensor.shape.end()}, {});
  }

  int32_t add(const std::string& name, fb::TensorType type, const std::vector<int32_t>& shape,
              const std::vector<uint8_t>& data) {
    uint32_t buffer = 0;
    if (!data.empty()) {
      buffer = static_cast<uint32_t>(buffers_.size());
      builder_.ForceVectorAlignment(data.size(), 1, 16);
      buffers_.push_back(fb::CreateBuffer(builder_, builder_.CreateVector(data)));
    }
    const auto sizes = builder_.CreateVector(shape);
    tensors_.push_back(
        fb::CreateTensor(builder_, sizes, type, buffer, builder_.CreateString(name)));
    return static_cast<int32_t>(tensors_.size() - 1);
  }

  std::vector<uint8_t> finish(const std::vector<int32_t>& operands,
                              const std::vector<int32_t>& results) {
    const auto name = builder_.CreateString("NeutronGraph");
    const auto code =
        fb::CreateOperatorCode(builder_, static_cast<int8_t>(fb::BuiltinOperator::CUSTOM), name, 1,
                               fb::BuiltinOperator::CUSTOM);
    std::vector<flatbuffers::Offset<fb::Operator>> operators;
    for (int i = 0; i < (mode_ == "two" ? 2 : 1); ++i) {
      const auto operand_vector = builder_.CreateVector(operands);
      operators.push_back(
          fb::CreateOperator(builder_, 0, operand_vector, builder_.CreateVector(results)));
    }
    const auto tensors = builder_.CreateVector(tensors_);
    const auto inputs = builder_.CreateVector(inputs_);
    const auto outputs = builder_.CreateVector(outputs_);
    const auto operator_vector = builder_.CreateVector(operators);
    const auto graph = fb::CreateSubGraph(builder_, tensors, inputs, outputs, operator_vector);
    const auto codes = builder_.CreateVector(&code, 1);
    const auto graphs = builder_.CreateVector(&graph, 1);
    fb::FinishModelBuffer(
        builder_, fb::CreateModel(builder_, 3, codes, graphs, 0, builder_.CreateVector(buffers_)));
    return {builder_.GetBufferPointer(), builder_.GetBufferPointer() + builder_.GetSize()};
  }

  std::string mode_;
  flatbuffers::FlatBufferBuilder builder_;
  std::vector<flatbuffers::Offset<fb::Tensor>> tensors_;
  std::vector<flatbuffers::Offset<fb::Buffer>> buffers_{fb::CreateBuffer(builder_)};
  std::vector<int32_t> inputs_, outputs_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string mode = words.size() % 2 == 1 ? words[0] : "";
  std::string input, output;
  for (size_t i = words.size() % 2; i + 1 < words.size(); i += 2) {
    if (words[i] == "--input") input = words[i + 1];
    if (words[i] == "--output") output = words[i + 1];
  }
  if (mode == "fail") {
    std::fprintf(stderr, "ERROR: no kernel for subgraph_0\n");
    return 3;
  }
  if (mode == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
  if (mode == "nothing") return 0;
  const Result<FileContents> file = FileContents::read(input);
  if (!file) return 1;
  const Result<tflite::ModelFile> model = tflite::ModelFile::open(file->bytes(), input);
  if (!model) {
    std::fprintf(stderr, "%s\n", to_text(model.error()).c_str());
    return 1;
  }
  std::vector<uint8_t> bytes{'r', 'u', 'b', 'b', 'i', 's', 'h'};
  if (mode != "rubbish") bytes = Wrapper(mode).wrap(*model, file->bytes());
  std::ofstream(output, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return 0;
}
