// Runs a compiled program on a host: run_model PROGRAM.pte INPUTS.bin OUTPUTS.bin
// Both data files hold tensors as they lie in memory, one after the other. It has the portable
// kernels: programs for the target `executorch`.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include "device/runtime/api.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace {

struct alignas(16) Block {
  std::byte bytes[16];
};
using Memory = std::vector<Block>;

std::span<std::byte> take(Memory& memory, size_t bytes) {
  memory.resize(bytes / sizeof(Block) + 1);
  return {memory.front().bytes, bytes};
}

int fail(const char* what, const deuteron::Status& status) {
  std::fprintf(stderr, "%s: %s (code %d, index %u, detail %u) %.*s\n", what,
               dtr::pte::text(status.error), static_cast<int>(status.error), status.index,
               status.detail, static_cast<int>(status.name.size()), status.name.data());
  return 1;
}

int refuse(const char* path, const char* what) {
  std::fprintf(stderr, "%s %s\n", path, what);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: run_model PROGRAM.pte INPUTS.bin OUTPUTS.bin\n", stderr);
    return 2;
  }
  std::error_code none;
  for (int i = 1; i < 3; ++i) {
    if (!std::filesystem::is_regular_file(argv[i], none))
      return refuse(argv[i], "is not a file that can be read");
    if (std::filesystem::equivalent(argv[i], argv[3], none))
      return refuse(argv[3], "is read, too: it would be lost");
  }
  std::ifstream file(argv[1], std::ios::binary | std::ios::ate), in(argv[2], std::ios::binary);
  if (!file || !in) return refuse(argv[file ? 2 : 1], "cannot be opened");
  Memory program_memory, state_memory;
  const std::span<std::byte> bytes = take(program_memory, static_cast<size_t>(file.tellg()));
  file.seekg(0).read(reinterpret_cast<char*>(bytes.data()),
                     static_cast<std::streamsize>(bytes.size()));

  deuteron::Program program;
  deuteron::Status status =
      deuteron::Program::load(bytes, {.kernels = dtr::runtime::portable::kernels()}, &program);
  if (!status.ok()) return fail("load", status);
  deuteron::Requirements need;
  status = deuteron::Method::requirements(program, "forward", &need);
  if (!status.ok()) return fail("requirements", status);
  std::vector<Memory> arenas(need.memories);
  std::vector<std::span<std::byte>> memories;
  for (uint32_t i = 0; i < need.memories; ++i)
    memories.push_back(take(arenas[i], need.memory_bytes(i)));
  deuteron::Method method;
  status = method.prepare(program, "forward", take(state_memory, need.state_bytes), memories);
  if (!status.ok()) return fail("prepare", status);

  for (size_t i = 0; i < method.input_count(); ++i) {
    const deuteron::Tensor& tensor = *method.input_tensor(i);
    in.read(tensor.values<char>(),
            static_cast<std::streamsize>(
                tensor.bytes()));  // straight into its place: nothing is copied
    status = method.set_input(i, {tensor.data, static_cast<size_t>(in.gcount()), tensor.dtype,
                                  tensor.shape(), tensor.order()});
    if (!status.ok()) return fail("input", status);
  }
  if (in.peek() != std::ifstream::traits_type::eof())
    return refuse(argv[2], "has more bytes than the inputs");
  int steps_left = 1000;
  const auto may_go_on = [](void* context, const deuteron::Method&, uint32_t) {
    return (*static_cast<int*>(context))-- > 0;
  };
  const deuteron::Observer observer{.context = &steps_left,
                                    .before = may_go_on};  // a product looks at a clock
  status = method.run(&observer);
  if (!status.ok()) return fail("run", status);
  std::ofstream out(argv[3], std::ios::binary);
  for (size_t i = 0; i < method.output_count(); ++i) {
    const deuteron::Tensor& tensor = *method.output_tensor(i);
    out.write(tensor.values<char>(), static_cast<std::streamsize>(tensor.bytes()));
  }
  return out.flush() ? 0 : refuse(argv[3], "cannot be written");
}
