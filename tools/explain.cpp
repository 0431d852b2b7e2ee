// deuteron explain
#include <fmt/format.h>

#include "compiler/session.h"
#include "profiler/explain.h"
#include "tools/verbs.h"

namespace dtr::tools {
namespace {

constexpr size_t kEvents = 1 << 20;  // a program has fewer commands

// The cost of a program does not depend on its data: a run of zeros tells it.
Result<Profile> profile_of_zeros(Session& session) {
  std::vector<Tensor> inputs;
  std::vector<TensorView> views;
  const Graph& signature = session.signature();
  for (const ValueId input : signature.inputs()) inputs.emplace_back(signature.type(input).dtype, signature.type(input).shape);
  for (const Tensor& input : inputs) views.push_back(input.view());
  Recording recording{.buffer = std::vector<npu::ProfileRecord>(kEvents)};
  DTR_TRY(session.run(views, nullptr, {.recording = &recording}));
  Trace trace;
  trace.program = trace_program(session.image());
  trace.runs.push_back(decode_run(recording.records(), recording.lost, session.image()));
  return make_profile(trace, OperatorMap(*session.image().debug_map()), session.image().path());
}

}  // namespace

Status explain(const CommonOptions&, const ExplainOptions& options) {
  DTR_ASSIGN(const std::unique_ptr<Session> session, Session::open(options.program));
  if (session->image().debug_map() == nullptr)
    return fail(DiagnosticId::kPteDebugMap, "the program has no debug map, which says what its calls stand for",
                "compile it without --no-debug-map", {.file = options.program});
  DTR_ASSIGN(const Profile profile, profile_of_zeros(*session));
  const std::string text = explain_text(profile, &session->image(), options.name, options.most);
  if (text.empty())
    return fail(DiagnosticId::kNodeUnknown, fmt::format("no operator of the program has `{}` in its name, module or kernel", options.name),
                "deuteron profile lists them", {.file = options.program});
  fmt::print("{}", text);
  return {};
}

}  // namespace dtr::tools
