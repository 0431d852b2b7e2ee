// Which of the format's operators are read, and why the others are not.
#include <flatbuffers/flatbuffers.h>

#include "compiler/frontends/tflite/importer.h"

namespace dtr::tflite {
namespace {

using fb::BuiltinOperator;

struct Refused {
  WhyRefused why;
  std::span<const BuiltinOperator> codes;
};

constexpr BuiltinOperator kControlFlow[] = {
    BuiltinOperator::CALL,
    BuiltinOperator::STABLEHLO_CASE,
    BuiltinOperator::STABLEHLO_WHILE,
};
constexpr BuiltinOperator kRandom[] = {
    BuiltinOperator::MULTINOMIAL,
    BuiltinOperator::RANDOM_STANDARD_NORMAL,
    BuiltinOperator::RANDOM_UNIFORM,
    BuiltinOperator::STABLEHLO_RNG_BIT_GENERATOR,
};
constexpr BuiltinOperator kDataDependentShape[] = {
    BuiltinOperator::UNIQUE,
    BuiltinOperator::WHERE,
};
constexpr BuiltinOperator kTables[] = {
    BuiltinOperator::CONCAT_EMBEDDINGS, BuiltinOperator::EMBEDDING_LOOKUP_SPARSE,
    BuiltinOperator::HASHTABLE,         BuiltinOperator::HASHTABLE_FIND,
    BuiltinOperator::HASHTABLE_IMPORT,  BuiltinOperator::HASHTABLE_LOOKUP,
    BuiltinOperator::HASHTABLE_SIZE,    BuiltinOperator::LSH_PROJECTION,
    BuiltinOperator::SKIP_GRAM,
};
constexpr BuiltinOperator kBits[] = {BuiltinOperator::BITCAST};
constexpr BuiltinOperator kForeign[] = {
    BuiltinOperator::CUSTOM,
    BuiltinOperator::DELEGATE,
    BuiltinOperator::STABLEHLO_CUSTOM_CALL,
};
constexpr Refused kRefused[] = {
    {{"control flow",
      "Export the model without loops and branches: unroll a recurrent layer, or export one step, "
      "whose state is an input and an output."},
     kControlFlow},
    {{"random numbers", "Draw them in the application and make them an input."}, kRandom},
    {{"a shape that depends on the data",
      "End the model before it, and select elements or boxes in the application."},
     kDataDependentShape},
    {{"hash tables, strings or sparse lookups",
      "Look words up in the application and make their numbers an input."},
     kTables},
    {{"the bits of a number as another type",
      "Export the model with a conversion (CAST), or reinterpret the tensor in the application."},
     kBits},
    {{"a kernel that the file does not hold",
      "Export the model with operators of the format alone, or end it before this one."},
     kForeign},
};

}  // namespace

WhyRefused why_refused(BuiltinOperator code) {
  for (const Refused& group : kRefused)
    for (const BuiltinOperator each : group.codes)
      if (each == code) return group.why;
  if (std::string_view(fb::EnumNameBuiltinOperator(code)).starts_with("STABLEHLO_"))
    return {"a kernel: LiteRT has none either",
            "Convert the model anew: LiteRT's converter writes these as operators of TensorFlow "
            "Lite, such as ADD for STABLEHLO_ADD."};
  return {"", "Replace them before the export."};
}

std::vector<BuiltinSupport> builtin_operators() {
  std::vector<BuiltinSupport> all;
  for (const BuiltinOperator code : fb::EnumValuesBuiltinOperator()) {
    if (code == BuiltinOperator::PLACEHOLDER_FOR_GREATER_OP_CODES) continue;
    const bool read = find_operator(code) != nullptr;
    all.push_back({fb::EnumNameBuiltinOperator(code), read,
                   read ? std::string_view() : why_refused(code).needs});
  }
  return all;
}

}  // namespace dtr::tflite
