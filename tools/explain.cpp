// deuteron explain
#include <fmt/format.h>

#include "host/profiler/explain.h"
#include "host/session/recorder.h"
#include "tools/print.h"
#include "tools/verbs.h"

namespace dtr::tools {
Status explain(const CommonOptions&, const ExplainOptions& options) {
  DTR_ASSIGN(const std::unique_ptr<Session> session, Session::open(options.program, options.tensor_files));
  note_unused_tensors(options.tensor_files, {&session->image()});
  if (session->image().debug_map() == nullptr)
    return fail(DiagnosticId::kPteDebugMap, "the program has no debug map, which says what its calls stand for",
                "compile it without --no-debug-map", {.file = options.program});
  DTR_ASSIGN(const Trace trace, record_zeros(*session));
  Profile profile = make_profile(trace, OperatorMap(*session->image().debug_map()), options.program);
  profile.configuration = npu_configuration(session->image());
  const std::string text = explain_text(profile, &session->image(), options.name, options.most);
  if (text.empty())
    return fail(DiagnosticId::kNodeUnknown, fmt::format("no operator of the program has `{}` in its name, module or kernel", options.name),
                "deuteron profile lists them", {.file = options.program});
  print("{}", EncodedLines{text});
  return {};
}

}  // namespace dtr::tools
