// A verb of the command is one file, tools/NAME.cpp, and one line in verbs.inc. The file has a
// struct with the verb's options, a function that registers them with CLI11, and one that runs.
// The output of a verb goes to standard output, messages and progress to standard error.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/program/reader.h"
#include "compiler/support/result.h"
#include "compiler/targets/target.h"

namespace dtr::tools {

struct CommonOptions {
  bool json_diagnostics = false;
  std::string verb;   // "compile"
  std::string input;  // its first file, for messages about the whole command
};

class Verb {
 public:
  virtual ~Verb() = default;
  // Adds the verb with its options to the command.
  virtual const CLI::App* add(CLI::App& app) = 0;
  // An error of the options that CLI11 does not detect, such as one without effect; empty if there
  // is none.
  virtual std::string misuse(const CLI::App& verb) const = 0;
  // Runs the verb. Returns false if a check that the user requested fails (exit code 1). Errors:
  // diagnostics about the input.
  virtual Result<bool> run(const CommonOptions& common) const = 0;
};

// The result of a verb's function: success is true. Errors: those of `result`.
inline Result<bool> as_result(Result<bool> result) { return result; }
inline Result<bool> as_result(const Result<void>& status) {
  return status ? Result<bool>(true) : tl::unexpected(status.error());
}

// A verb made of functions, which must have names of their own: g++ 12 merges template instances
// for functions of one name. `Run` takes the common options and the verb's, and returns
// Result<void> or Result<bool>.
template <class Options, auto Add, auto Run, auto Misuse = nullptr>
class VerbOf final : public Verb {
 public:
  const CLI::App* add(CLI::App& app) override { return Add(app, options_); }
  std::string misuse(const CLI::App& verb) const override {
    if constexpr (Misuse == nullptr) {
      return {};
    } else {
      return Misuse(verb);
    }
  }
  Result<bool> run(const CommonOptions& common) const override {
    return as_result(Run(common, options_));
  }

 private:
  Options options_;
};

#define DTR_VERB(name) std::unique_ptr<Verb> name##_verb();
#include "tools/verbs.inc"
#undef DTR_VERB

// Help of a verb ends with an example that works in the root of the repository.
void example(CLI::App* verb, const std::string& text);
// A number within bounds, which CLI::Range does not check: it takes "nan".
CLI::Validator number(double low, double high, const std::string& description);

// --tensors, which may be repeated.
void add_tensor_files(CLI::App* verb, std::vector<std::string>& files);
// --method, of a program that has several.
void add_method(CLI::App* verb, std::string& method);
// Prints a note if tensor files were given and none of the programs has constants outside of its
// file.
void note_unused_tensors(const std::vector<std::string>& files,
                         std::initializer_list<const PteFile*> programs);

// --threads, of verbs that run the samples of a data set beside each other; 0: all of the machine.
void add_threads(CLI::App* verb, unsigned& threads);
// --checked, of verbs that simulate the NPU.
void add_checked(CLI::App* verb);

// MODEL, the file that the verb compiles.
void add_model(CLI::App* verb, std::string& model);
// --recipe, a file that replaces the target's recipe.
void add_recipe(CLI::App* verb, std::string& recipe);
// --calibrate, --calibrate-random and --load-calibration, the sources of a float model's ranges.
// Returns the last one.
CLI::Option* add_calibration(CLI::App* verb, std::string& data,
                             std::optional<uint32_t>& random_samples, std::string& ranges);
// The same with data for each method of a program: METHOD=DATA, repeatable.
CLI::Option* add_calibration(CLI::App* verb, std::vector<std::string>& data,
                             std::optional<uint32_t>& random_samples, std::string& ranges);

// --target, a name or a file that `resolve_target` (host/commands/compile_options.h) looks up.
CLI::Option* add_target(CLI::App* verb, std::string& target, const std::string& help);

}  // namespace dtr::tools
