// `deuteron explore` without its terminal: programs of one model within different budgets of SRAM,
// each compiled, simulated and compared with the others.
#pragma once

#include <string>
#include <vector>

#include "host/commands/compile_options.h"
#include "host/commands/frontier_plot.h"

namespace dtr {

struct ExploreOptions {
  CompileOptions compile;  // model and options; its outputs, budget and `optimize` are not used
  uint32_t points = 20;    // programs to try, at least 2
  FrontierPaths files;
};

// One program.
struct FrontierPoint {
  uint64_t budget_bytes = 0;  // it was compiled for
  Optimize optimize = Optimize::kSpeed;
  bool is_default = false;     // all of the target's SRAM, for speed
  uint64_t sram_bytes = 0;     // it needs: arena, and program if its constants are in SRAM
  uint64_t value_bytes = 0;    // of the arena: up to the end of the topmost tensor
  uint64_t touched_bytes = 0;  // high-water mark of the arena in the simulation
  uint64_t cycles = 0;         // of the NPU as simulated, and of the CPU as estimated
  uint64_t waiting_cycles = 0;
  uint32_t npu_calls = 0;
};

struct Frontier {
  std::string model, target;
  uint32_t clock_hz = 0;
  uint32_t programs = 0;  // that were compiled and simulated, all with equal outputs
  // Smallest first. A program that another one beats in bytes and cycles is left out.
  std::vector<FrontierPoint> points;
};

// Compiles the model, a path or bytes, without a budget and for the smallest program, then for
// budgets between them, a constant factor apart. Runs each program on the same input
// (noise from a fixed seed) and writes the files that the options name. Errors: those of
// compile_with_options; kCheckFailed, if an output differs from that of the program without a
// budget or a program touches more SRAM than it plans.
Result<Frontier> explore(const ModelSource& source, const ExploreOptions& options,
                         const CompileWatch& watch,
                         std::optional<SampleSource> samples = std::nullopt);

std::string to_text(const Frontier& frontier);  // a table with a bar for the cycles of each program
std::string to_json(const Frontier& frontier);
std::string to_svg(const Frontier& frontier);   // bytes to the right, cycles upwards
std::string to_html(const Frontier& frontier);  // a page with both

}  // namespace dtr
