#include "compiler/frontends/pt2/remedies.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "compiler/frontends/pt2/operators.h"
#include "compiler/plugins/plugins.h"

namespace dtr::pt2 {
namespace {

struct Remedy {
  std::string_view name;  // begins the operator's, without "aten."
  std::string_view text;
};

constexpr std::string_view kOutside =
    "end the model in front of it and compute it in the application: the number of its results "
    "changes from run to run";
constexpr Remedy kOfData[] = {
    {"_local_scalar_dense",
     "keep the number a tensor: leave out .item(), .tolist(), int() and float()"},
    {"_unique", kOutside},
    {"bincount",
     "compare with a known number of bins: (x.unsqueeze(-1) == torch.arange(bins)).sum(0)"},
    {"item", "keep the number a tensor: leave out .item(), .tolist(), int() and float()"},
    {"masked_select", "keep the shape: torch.where(mask, x, 0) or x * mask"},
    {"nms", kOutside},
    {"nonzero",
     "keep the shape: a mask in place of places (x > 0), torch.where(mask, x, 0), or "
     "torch.topk for a known number of places"},
    {"repeat_interleave",
     "give the repetitions as a number; where they are a known tensor, make a buffer of "
     "torch.repeat_interleave(torch.arange(n), repeats) in __init__ and index with it"},
    {"unique", kOutside},
};
constexpr std::string_view kOfMasks =
    "keep the shape: torch.where(mask, x, 0) or x * mask in place of x[mask]; index with numbers "
    "that __init__ computes where the mask is known";

constexpr Remedy kOfRandom[] = {
    {"bernoulli", "make uniform noise an input of the model: (noise < p).float(); or take p > 0.5"},
    {"exponential",
     "in place of F.gumbel_softmax take logits.softmax(-1), or make the noise an input of the "
     "model: (logits + noise).softmax(-1)"},
    {"multinomial",
     "take the most probable ones, p.topk(k).indices, or make Gumbel noise an input of the model: "
     "(p.log() + noise).topk(k).indices"},
};

// Of numerical mathematics: iterations until something is small enough.
constexpr std::string_view kIterations[] = {"geqrf",      "linalg_eig",       "linalg_eigvals",
                                            "linalg_ldl", "linalg_lu_factor", "linalg_lu",
                                            "lu_unpack"};

std::string_view plain_name(std::string_view target) {
  for (const std::string_view prefix : {"torchvision.", "aten."})
    if (target.starts_with(prefix)) target.remove_prefix(prefix.size());
  return target.substr(0, target.find('.'));
}

}  // namespace

std::string_view remedy_of_data(std::string_view target) {
  const std::string_view name = plain_name(target);
  const auto found = std::ranges::find_if(
      kOfData, [&](const Remedy& remedy) { return name.starts_with(remedy.name); });
  return found == std::end(kOfData) ? kOfMasks : found->text;
}

std::string_view remedy_of_random(std::string_view target) {
  const std::string_view name = plain_name(target);
  const auto found = std::ranges::find_if(
      kOfRandom, [&](const Remedy& remedy) { return name.starts_with(remedy.name); });
  return found == std::end(kOfRandom)
             ? "make the noise an input of the model, or leave it out at inference"
             : found->text;
}

std::string remedy_of_missing(std::string_view target, MissingKind kind) {
  const std::string_view name = plain_name(target);
  if (name == "nms") return std::string(kOutside);
  // Before the general ones: what the shape of the result depends on is no matter of operators.
  for (const std::string_view of_data : {"_unique", "bincount", "masked_select", "unique"})
    if (name.starts_with(of_data)) return std::string(remedy_of_data(target));
  if (name == "nonzero" || name == "nonzero_numpy") return std::string(remedy_of_data(target));
  if (!target.starts_with("aten."))
    return fmt::format(
        "{} is not PyTorch's own operator: write what it computes with operators that `deuteron "
        "ops --pt2` lists, or end the model in front of it. {}",
        target, plugin_remedy(plugin_kernel_name(target)));
  if (name.find("sparse") != std::string_view::npos)
    return "keep the tensor dense: leave out .to_sparse() and torch.sparse, whose shapes depend on "
           "elements; a product with zeros is computed like any other";
  if (name == "linalg_lstsq")
    return "torch.linalg.pinv(A) @ B, or for a matrix of full column rank "
           "torch.linalg.solve(A.mT @ A, A.mT @ B)";
  if (std::ranges::find(kIterations, name) != std::end(kIterations))
    return "compute it when the model is built, if its operand does not depend on an input; else "
           "end the model in front of it and compute it in the application";
  if (kind.complex)
    return "compute with two real tensors, of which torch.view_as_real(x) gives both: "
           "`deuteron ops --pt2` lists what there is for complex numbers";
  constexpr std::string_view kWrite =
      "write it with operators that `deuteron ops --pt2` lists, or add it as CONTRIBUTING shows";
  if (kind.decomposed) return std::string(kWrite);
  return fmt::format(
      "save the export after `program = program.run_decompositions()`, which replaces many "
      "operators by simpler ones; else {}",
      kWrite);
}

}  // namespace dtr::pt2
