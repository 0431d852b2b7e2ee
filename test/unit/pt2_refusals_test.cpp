// What the importer says to operators whose arguments it does not take: programs of one operator,
// written here as exports would be, and the exact text. Most of them PyTorch itself would not have
// exported; a file may hold them all the same.
#include <fmt/format.h>

#include "compiler/frontends/pt2/pt2.h"
#include "compiler/support/zip_writer.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

struct Refusal {
  std::string_view target;
  // Shapes of the inputs x0, x1, …: "2x3", "" for a scalar; another dtype than float32 in front:
  // "i8:2x3".
  std::vector<std::string_view> inputs;
  // "self=%0 size=[4,-1] mode='same'": tensors, integers, floats (with a dot, or NaN and Infinity),
  // flags, strings, dtype:N; lists of each.
  std::string_view arguments;
  std::string_view reason;  // without "TARGET: "
  std::string_view fix = "change the model so that it does without";
};

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(separator, start), text.size());
    parts.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

// One value, and what a list of such values is called.
std::pair<std::string, std::string> element(const std::string& text) {
  if (text.starts_with('%'))
    return {fmt::format(R"({{"name": "x{}"}})", text.substr(1)), "as_tensors"};
  if (text == "NaN" || text == "Infinity") return {'"' + text + '"', "as_floats"};
  if (text.find('.') != std::string::npos) return {text, "as_floats"};
  return {text, "as_ints"};
}

std::string argument(const std::string& text) {
  if (text.starts_with('[')) {
    std::string list, kind = "as_ints";
    for (const std::string& each : split(text.substr(1, text.size() - 2), ',')) {
      list += (list.empty() ? "" : ", ") + element(each).first;
      kind = element(each).second;
    }
    return fmt::format(R"({{"{}": [{}]}})", kind, list);
  }
  if (text.starts_with('\''))
    return fmt::format(R"({{"as_string": "{}"}})", text.substr(1, text.size() - 2));
  if (text == "true" || text == "false") return fmt::format(R"({{"as_bool": {}}})", text);
  if (text.starts_with("dtype:")) return fmt::format(R"({{"as_scalar_type": {}}})", text.substr(6));
  const auto [value, list] = element(text);
  return fmt::format(R"({{"{}": {}}})", list.substr(0, list.size() - 1), value);
}

// Numbers of PyTorch's scalar types in the file.
int scalar_type(std::string_view dtype) {
  constexpr std::pair<std::string_view, int> kTypes[] = {
      {"u8", 1}, {"i8", 2}, {"i16", 3}, {"i32", 4}, {"i64", 5}, {"f64", 8}, {"bool", 12}};
  for (const auto& [name, number] : kTypes)
    if (name == dtype) return number;
  return 7;
}

std::string tensor(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view dtype = colon == std::string_view::npos ? "" : text.substr(0, colon);
  std::string sizes, strides;
  int64_t stride = 1;
  const std::vector<std::string> extents =
      split(colon == std::string_view::npos ? text : text.substr(colon + 1), 'x');
  for (size_t i = extents.size(); i-- > 0;) {
    sizes = fmt::format(R"({{"as_int": {}}}{}{})", extents[i], sizes.empty() ? "" : ", ", sizes);
    strides = fmt::format(R"({{"as_int": {}}}{}{})", stride, strides.empty() ? "" : ", ", strides);
    stride *= std::stoll(extents[i]);
  }
  return fmt::format(
      R"({{"dtype": {}, "sizes": [{}], "requires_grad": false, "device": {{"type": "cpu", "index": null}},)"
      R"( "strides": [{}], "storage_offset": {{"as_int": 0}}, "layout": 7}})",
      scalar_type(dtype), sizes, strides);
}

std::string node(std::string_view target, std::string_view given, std::string_view output) {
  std::string arguments;
  for (const std::string& each : split(given, ' ')) {
    const size_t equals = each.find('=');
    arguments +=
        fmt::format(R"({}{{"name": "{}", "arg": {}, "kind": 1}})", arguments.empty() ? "" : ", ",
                    each.substr(0, equals), argument(each.substr(equals + 1)));
  }
  return fmt::format(
      R"({{"target": "torch.ops.{}", "inputs": [{}], "outputs": [{{"as_tensor": {{"name": "{}"}}}}],)"
      R"( "metadata": {{}}, "name": "{}"}})",
      target, arguments, output, output);
}

// The node `y`; before it, if `before` has arguments, the node `z` of the same operator.
std::vector<std::byte> program_of(const Refusal& refusal, std::string_view before = {}) {
  std::string tensors = "\"y\": " + tensor("1"), inputs, nodes;
  if (!before.empty()) {
    nodes = node(refusal.target, before, "z") + ", ";
    tensors += ", \"z\": " + tensor("2x3");
  }
  nodes += node(refusal.target, refusal.arguments, "y");
  for (size_t i = 0; i < refusal.inputs.size(); ++i) {
    tensors += fmt::format(R"(, "x{}": {})", i, tensor(refusal.inputs[i]));
    inputs += fmt::format(R"({}{{"user_input": {{"arg": {{"as_tensor": {{"name": "x{}"}}}}}}}})",
                          i == 0 ? "" : ", ", i);
  }
  const std::string model = fmt::format(
      R"({{"graph_module": {{"graph": {{"nodes": [{}], "tensor_values": {{{}}}}}, "signature": {{"input_specs": [{}], "output_specs":)"
      R"( [{{"user_output": {{"arg": {{"as_tensor": {{"name": "y"}}}}}}}}{}]}}}}, "schema_version": {{"major": 8, "minor": 20}}}})",
      nodes, tensors, inputs,
      before.empty() ? "" : R"(, {"user_output": {"arg": {"as_tensor": {"name": "z"}}}})");
  ZipWriter writer;
  const auto add = [&](const std::string& name, const std::string& content) {
    writer.add("m/" + name, std::as_bytes(std::span(content)));
  };
  add("models/model.json", model);
  add("data/weights/model_weights_config.json", R"({"config": {}})");
  add("data/constants/model_constants_config.json", R"({"config": {}})");
  add("byteorder", "little");
  return writer.finish();
}

void expect_refused(std::span<const Refusal> refusals) {
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(fmt::format("{} {}", refusal.target, refusal.arguments));
    const auto program = pt2::parse_pt2(program_of(refusal), "one.pt2");
    if (program.has_value()) {
      ADD_FAILURE() << "was accepted";
      continue;
    }
    const Diagnostic& problem = program.error();
    EXPECT_EQ(info(problem.id).name, "pt2-unsupported-argument");
    EXPECT_EQ(problem.place.node, "y");
    const std::string prefix = std::string(refusal.target) + ": ";
    EXPECT_EQ(problem.reason.substr(problem.reason.starts_with(prefix) ? prefix.size() : 0),
              refusal.reason);
    EXPECT_EQ(problem.fix, refusal.fix);
  }
}

TEST(Pt2Refusals, Shapes) {
  const Refusal refusals[] = {
      {"aten.view.default",
       {"2x3"},
       "self=%0 size=[4,-1]",
       "the elements of 2x3 do not fill 4x1 times any number"},
      {"aten.view.default",
       {"2x3"},
       "self=%0 size=[-1,0]",
       "the elements of 2x3 do not fill 1x0 times any number"},
      {"aten.view.default",
       {"2x3"},
       "self=%0 size=[7]",
       "`size` [7] does not hold the elements of the operand 2x3"},
      {"aten.flatten.using_ints",
       {"2x3"},
       "self=%0 start_dim=1 end_dim=0",
       "`start_dim` 1 lies behind `end_dim` 0"},
      {"aten.squeeze.dims", {"2x3"}, "self=%0 dim=[0,-2]", "`dim` names a dimension twice"},
      {"aten.squeeze.dims", {"2x3"}, "self=%0 dim=[5]", "`dim` has 5, the rank is 2"},
      {"aten.unsqueeze.default", {"2x3"}, "self=%0 dim=4", "`dim` is 4, the rank is 3"},
      {"aten.permute.default", {"2x3"}, "self=%0 dims=[0,7]", "`dims` has 7, the rank is 2"},
      {"aten.permute.default",
       {"2x3"},
       "self=%0 dims=[0,0]",
       "`dims` [0, 0] is not a permutation of the dimensions of 2x3"},
      {"aten.transpose.int", {"2x3"}, "self=%0 dim0=0 dim1=2", "`dim1` is 2, the rank is 2"},
      {"aten.movedim.intlist",
       {"2x3"},
       "self=%0 source=[0,1] destination=[1]",
       "2 dimensions go to 1 places"},
      {"aten.movedim.intlist",
       {"2x3"},
       "self=%0 source=[0] destination=[5]",
       "dimension 0 goes to 5, which is taken or beyond the rank 2"},
      {"aten.unflatten.int",
       {""},
       "self=%0 dim=0 sizes=[1]",
       "the operand is a scalar, it has no dimensions"},
      {"aten.unflatten.int",
       {"2x6"},
       "self=%0 dim=1 sizes=[4,-1]",
       "6 elements do not fill 4x1 times any number"},
      {"aten.pixel_shuffle.default",
       {"1x3x2x2"},
       "self=%0 upscale_factor=2",
       "the factor 2 does not divide the channels of 1x3x2x2"},
      {"aten.pixel_unshuffle.default",
       {"1x3x2x3"},
       "self=%0 downscale_factor=2",
       "the factor 2 does not divide height and width of 1x3x2x3"},
      {"aten.channel_shuffle.default",
       {"1x3x2"},
       "self=%0 groups=2",
       "2 groups do not divide the channels of 1x3x2"},
      {"aten.stack.default",
       {"2x3", "3x2"},
       "tensors=[%0,%1]",
       "the tensors have different shapes, 2x3 and 3x2"},
      {"aten.cat.default",
       {"2x3", "3x2"},
       "tensors=[%0,%1] dim=0",
       "operand 1 has shape 3x2, which does not join 2x3 along 0"},
  };
  expect_refused(refusals);
}

TEST(Pt2Refusals, Parts) {
  const Refusal refusals[] = {
      {"aten.slice.Tensor", {""}, "self=%0 dim=0", "the operand is a scalar, it has no dimensions"},
      {"aten.slice.Tensor",
       {"2x3"},
       "self=%0 dim=0 step=0 start=0 end=1",
       "`step` is 0, expected at least 1"},
      {"aten.select.int",
       {"2x3"},
       "self=%0 dim=0 index=3",
       "`index` 3 is out of range for 2 elements"},
      {"aten.narrow.default",
       {"2x3"},
       "self=%0 dim=0 start=0 length=4",
       "4 elements from 0 on do not lie within 2"},
      {"aten.unbind.int", {""}, "self=%0", "the operand is a scalar, it has no dimensions"},
      {"aten.unbind.int",
       {"5000x1"},
       "self=%0 dim=0",
       "it makes 5000 parts, at most 4096 are taken",
       "split into fewer, larger parts"},
      {"aten.split.Tensor",
       {""},
       "self=%0 split_size=1",
       "the operand is a scalar, it has no dimensions"},
      {"aten.split.Tensor",
       {"6x1"},
       "self=%0 split_size=0",
       "a part has 0 elements, expected at least 1"},
      {"aten.split.Tensor",
       {"5000x1"},
       "self=%0 split_size=1",
       "it makes 5000 parts, at most 4096 are taken",
       "split into fewer, larger parts"},
      {"aten.split_with_sizes.default",
       {"3x2"},
       "self=%0 split_sizes=[2,2]",
       "the sizes [2, 2] do not lie within 3 elements"},
      {"aten.chunk.default", {"3x2"}, "self=%0 chunks=0", "`chunks` is 0, expected at least 1"},
      {"aten.chunk.default",
       {"3x2"},
       "self=%0 chunks=5000",
       "it makes 5000 parts, at most 4096 are taken",
       "split into fewer, larger parts"},
  };
  expect_refused(refusals);
}

TEST(Pt2Refusals, Repetition) {
  const Refusal refusals[] = {
      {"aten.repeat.default",
       {"2x3"},
       "self=%0 repeats=[2]",
       "`repeats` has 1 entries for the shape 2x3"},
      {"aten.repeat.default",
       {"2x3"},
       "self=%0 repeats=[2,-1]",
       "an extent of 3 is repeated -1 times"},
      {"aten.repeat.default",
       {"1099511627776"},
       "self=%0 repeats=[1073741824]",
       "an extent of 1099511627776 is repeated 1073741824 times"},
      {"aten.repeat_interleave.self_int",
       {""},
       "self=%0 repeats=2 dim=0",
       "the operand is a scalar, it has no dimensions"},
      {"aten.expand.default",
       {"2x3"},
       "self=%0 size=[4,3]",
       "2x3 does not broadcast to `size` [4, 3]"},
      {"aten.roll.default",
       {"2x3"},
       "self=%0 shifts=[1] dims=[0,1]",
       "there are 1 shifts for 2 dimensions"},
      {"aten.roll.default", {"2x3"}, "self=%0 shifts=[1] dims=[3]", "`dims` has 3, the rank is 2"},
      {"aten.flip.default",
       {"2x3"},
       "self=%0 dims=[2]",
       "`dims` [2] is out of range or repeats for rank 2"},
      {"aten.pad.default",
       {"2x3"},
       "self=%0 pad=[1,1] mode='mirror'",
       "mode `mirror` is none of constant, reflect, replicate and circular"},
      {"aten.pad.default",
       {"2x3"},
       "self=%0 pad=[1,1,1] mode='reflect'",
       "the padding has 3 entries, expected pairs for at most 2 dimensions"},
      {"aten.pad.default",
       {"2x3"},
       "self=%0 pad=[-1,1] mode='reflect'",
       "mode reflect cannot cut, the padding has -1",
       "slice the tensor"},
      {"aten.pad.default",
       {"2x3"},
       "self=%0 pad=[5,1] mode='reflect'",
       "mode reflect adds at most 2 elements to an extent of 3, here 5"},
      {"aten.pad.default",
       {"2x3"},
       "self=%0 pad=[5,1] mode='circular'",
       "mode circular adds at most 3 elements to an extent of 3, here 5"},
      {"aten.constant_pad_nd.default",
       {"2x3"},
       "self=%0 pad=[-2,-2]",
       "`pad` -2 and -2 cut more than the extent 3"},
      {"aten.zeros.default",
       {"1"},
       "size=[1000000,1000000]",
       "it makes a constant of shape 1000000x1000000"},
  };
  expect_refused(refusals);
}

TEST(Pt2Refusals, Matrices) {
  const Refusal refusals[] = {
      {"aten.matmul.default",
       {"", "3"},
       "self=%0 other=%1",
       "a matrix product with a scalar",
       "multiply with `*`"},
      {"aten.matmul.default",
       {"2x3", "2x3"},
       "self=%0 other=%1",
       "the shapes 2x3 and 2x3 do not multiply"},
      {"aten.linear.default", {"2x3", "2x3x4"}, "input=%0 weight=%1", "a matrix has shape 2x3x4"},
      {"aten.batch_norm.default",
       {"2x3"},
       "input=%0 training=true eps=0.1",
       "batch normalization in training mode",
       "call model.eval() before the export"},
      {"aten.batch_norm.default",
       {"2x3"},
       "input=%0 training=false eps=0.1",
       "batch normalization without running statistics",
       "create the module with track_running_stats=True"},
      {"aten.instance_norm.default",
       {"3"},
       "input=%0 use_input_stats=true eps=0.1",
       "the input has shape 3, which has no channels"},
      {"aten.layer_norm.default",
       {"2x3"},
       "input=%0 normalized_shape=[4]",
       "`normalized_shape` 4 is not the end of the operand's shape 2x3"},
      {"aten.group_norm.default",
       {"1x3x2"},
       "input=%0 num_groups=2",
       "the operand 1x3x2 does not have channels in 2 groups"},
      {"aten.softmax.int", {"2x3"}, "self=%0 dim=3", "`dim` is 3, the rank is 2"},
      {"aten.softmax.int",
       {"2x3"},
       "self=%0 dim=1 dtype=dtype:8",
       "it converts its input from f32 first",
       "leave out the dtype"},
      {"aten.scaled_dot_product_attention.default",
       {"3", "3", "3"},
       "query=%0 key=%1 value=%2",
       "an operand has shape 3, expected a matrix or several"},
      {"aten.scaled_dot_product_attention.default",
       {"1x2x3", "1x2x3", "1x2x3"},
       "query=%0 key=%1 value=%2 dropout_p=0.5",
       "dropout in attention",
       "call model.eval() before the export"},
      {"aten.scaled_dot_product_attention.default",
       {"1x3x2x4", "1x2x2x4", "1x2x2x4"},
       "query=%0 key=%1 value=%2 enable_gqa=true",
       "3 heads of queries share 2 of keys"},
      {"aten.scaled_dot_product_attention.default",
       {"1x2x3", "1x2x3", "1x2x3", "2x2"},
       "query=%0 key=%1 value=%2 attn_mask=%3 is_causal=true",
       "a mask and is_causal",
       "put the causal mask into the mask"},
      {"aten.gt.Scalar",
       {"3"},
       "self=%0 other=0",
       "`self` is computed while the model runs",
       "make the mask a buffer of the module, or compute with maximum, minimum, relu or clamp"},
      {"aten.where.self",
       {"bool:2x3", "2x3", "2x3"},
       "condition=%0 self=%1 other=%2",
       "`condition` is computed while the model runs and chooses between two tensors",
       "choose between a tensor and a number"},
      {"aten.masked_fill.Scalar",
       {"2x3", "bool:4"},
       "self=%0 mask=%1 value=2",
       "its shapes do not broadcast"},
      {"aten.glu.default", {"2x3"}, "self=%0 dim=1", "halves of 3 elements"},
      {"aten.var.correction",
       {"1x3"},
       "self=%0 dim=[0]",
       "the variance of 1 elements with a correction of 1"},
      {"aten.einsum.default",
       {"2x3"},
       "equation='ij->i' tensors=[%0]",
       "the equation `ij->i` is none that one matrix product computes",
       "write it as one or two operands, a result, each letter at most once in each of them"},
      {"aten.einsum.default",
       {"2x3"},
       "equation='ii->i' tensors=[%0]",
       "the equation `ii->i` is none that one matrix product computes",
       "write it as one or two operands, a result, each letter at most once in each of them"},
      {"aten.einsum.default",
       {"2x3"},
       "equation='...j->j' tensors=[%0]",
       "the equation `...j->j` is none that one matrix product computes",
       "write it as one or two operands, a result, each letter at most once in each of them"},
      {"aten.einsum.default",
       {"2x3", "4x5"},
       "equation='ij,jk->ik' tensors=[%0,%1]",
       "the shapes 1x2x3 and 1x4x5 do not multiply"},
  };
  expect_refused(refusals);
}

TEST(Pt2Refusals, Windows) {
  const Refusal refusals[] = {
      {"aten.conv2d.padding",
       {"1x2x5x5", "3x2x3x3"},
       "input=%0 weight=%1 padding='valide'",
       "padding `valide` is neither `same` nor `valid`"},
      {"aten.conv2d.padding",
       {"1x2x5x5", "3x2x3x3"},
       "input=%0 weight=%1 padding='same' dilation=[-1,-1]",
       "`dilation` is -1 with padding `same`"},
      {"aten.conv2d.default",
       {"1x1x2x5x5", "3x2x3x3"},
       "input=%0 weight=%1",
       "the input has rank 5, the weight rank 4"},
      {"aten.conv2d.default",
       {"1x2x5x5", "3x2x3x3"},
       "input=%0 weight=%1 groups=9007199254740993",
       "`groups` is 9007199254740993"},
      {"aten.conv2d.default",
       {"1x2x5x5", "3x2x3x3"},
       "input=%0 weight=%1 stride=[1,1,1]",
       "`stride` has 3 entries, expected 2"},
      {"aten.conv3d.default",
       {"1x2x5x5x5", "3x2x3x3x3"},
       "input=%0 weight=%1",
       "a convolution over 3 dimensions",
       "convolve over two dimensions and add the results"},
      {"aten.max_pool2d.default",
       {"2x3"},
       "self=%0 kernel_size=[2,2]",
       "the input has shape 2x3, expected 3 or 4 dimensions"},
      {"aten.max_pool2d.default",
       {"1x2x5x5"},
       "self=%0 kernel_size=[2,2,2]",
       "`kernel_size` has 3 entries, expected 2"},
      {"aten.max_pool2d.default",
       {"1x2x5x5"},
       "self=%0 kernel_size=[2,2] padding=[2,2]",
       "`padding` 2 is more than half of the kernel, 2"},
      {"aten.avg_pool2d.default",
       {"1x2x5x5"},
       "self=%0 kernel_size=[2,2] divisor_override=0",
       "`divisor_override` is 0"},
      {"aten.avg_pool2d.default",
       {"1x2x5x5"},
       "self=%0 kernel_size=[0,2]",
       "`kernel_size` has the entry 0, expected 1 to 1073741824"},
      {"aten.adaptive_avg_pool2d.default",
       {"1x2x5x5"},
       "self=%0 output_size=[-1,2]",
       "`output_size` has the entry -1, expected 1 to 1073741824"},
      {"aten.adaptive_max_pool2d.default",
       {"1x2x5x5"},
       "self=%0 output_size=[0,2]",
       "`output_size` has the entry 0, expected 1 to 1073741824"},
      {"aten.upsample_nearest2d.vec",
       {"2x3"},
       "input=%0 scale_factors=[2.0,2.0]",
       "the input has shape 2x3, expected 4 dimensions"},
      {"aten.upsample_nearest2d.vec",
       {"1x1x2x3"},
       "input=%0 scale_factors=[2.0]",
       "`scale_factors` has 1 entries, expected 2"},
      {"aten.upsample_nearest2d.vec",
       {"1x1x2x3"},
       "input=%0 scale_factors=[0.0,2.0]",
       "the factor 0 resizes 2 elements to none, or to too many"},
      {"aten.upsample_nearest2d.vec", {"1x1x2x3"}, "input=%0", "neither a size nor scale factors"},
      {"aten.upsample_nearest2d.vec",
       {"1x1x2x3"},
       "input=%0 output_size=[0,3]",
       "`output_size` has the entry 0, expected 1 to 1073741824"},
  };
  expect_refused(refusals);
}

TEST(Pt2Refusals, Composed) {
  const Refusal refusals[] = {
      {"aten.pow.Scalar",
       {"2x3"},
       "self=-2.0 exponent=%0",
       "powers of -2",
       "take powers of a positive number"},
      {"aten.rrelu.default",
       {"2x3"},
       "self=%0 training=true",
       "it draws random slopes",
       "export model.eval()"},
      {"aten.linalg_vector_norm.default",
       {"2x3"},
       "self=%0 ord=0",
       "the norm of order 0",
       "take a norm of positive or infinite order"},
      {"aten.cosine_similarity.default",
       {"2x3", "3"},
       "x1=%0 x2=%1",
       "operands of shapes 2x3 and 3",
       "give both as many dimensions"},
      {"aten.slice_scatter.default",
       {"2x5", "2x2"},
       "self=%0 src=%1 dim=1 start=1 end=4",
       "2x2 takes the place of 1:4:1 of 2x5"},
      {"aten.slice_scatter.default",
       {"600", "300"},
       "self=%0 src=%1 dim=0 step=2",
       "it replaces 300 single elements, at most 256 are taken",
       "replace a range without steps"},
      {"aten.slice_scatter.default",
       {"2x5", "i32:2x5"},
       "self=%0 src=%1 dim=1",
       "it writes i32 into f32"},
      {"aten.select_scatter.default",
       {"2x5", "5"},
       "self=%0 src=%1 dim=0 index=2",
       "`index` 2 is out of range for 2 elements"},
      {"aten.copy.default", {"2x5", "i32:5"}, "self=%0 src=%1", "it writes i32 into f32"},
      {"aten.fill.Tensor", {"2x5", "i32:1"}, "self=%0 value=%1", "it writes i32 into f32"},
      {"aten.mT.default", {"5"}, "self=%0", "the operand has shape 5, which is no matrix"},
      {"aten.tensor_split.sections",
       {"2x5"},
       "self=%0 sections=0",
       "`sections` is 0, expected at least 1"},
      {"aten.rot90.default", {"2x5"}, "self=%0 dims=[1,-1]", "it turns 2x5 along [1, 1]"},
      {"aten.broadcast_tensors.default", {"2x3", "4"}, "tensors=[%0,%1]", "shapes 2x3 and 4"},
      {"aten.tensordot.default",
       {"2x3", "3x2"},
       "self=%0 other=%1 dims_self=[2] dims_other=[0]",
       "`dims_self` is [2], the rank is 2"},
      {"aten.eye.default",
       {},
       "n=5000",
       "an identity matrix of 5000 × 5000, at most 4096 are taken"},
      {"aten.linspace.default",
       {},
       "start=0 end=1 steps=-1",
       "-1 numbers, at most 16777216 are taken"},
      {"quantized_decomposed.choose_qparams.tensor",
       {"2x3"},
       "input=%0",
       "the model is quantized dynamically, it chooses the scales of activations while it runs",
       "quantize it statically (is_dynamic=False) and run calibration data through the prepared "
       "model"},
  };
  expect_refused(refusals);
}

TEST(Pt2Refusals, Elements) {
  const Refusal refusals[] = {
      {"aten.relu.default",
       {"2x3"},
       "self=%0 flavour=1",
       "the argument `flavour` is not supported",
       "leave the argument at its default"},
      {"aten.gelu.default",
       {"2x3"},
       "self=%0 approximate='roughly'",
       "`approximate` is `roughly`, expected none or tanh"},
      {"aten.add.Tensor",
       {"2x3", "4"},
       "self=%0 other=%1",
       "the shapes 2x3 and 4 do not broadcast"},
      {"aten.add.Tensor",
       {"i32:2x3", "i32:2x3"},
       "self=%0 other=%1",
       "operand 0 is i32 without quantization, expected float or i8 quantized per tensor"},
      {"aten.relu.default",
       {"bool:2x3"},
       "self=%0",
       "operand 0 is bool without quantization, expected float or i8 quantized per tensor"},
      {"aten.prelu.default",
       {"2x3", "4"},
       "self=%0 weight=%1",
       "the shapes 2x3 and 4 do not broadcast"},
      {"aten.mean.dim", {"2x3"}, "self=%0 dim=[0,0]", "`dim` names a dimension twice"},
      {"aten.mean.dim", {"2x3"}, "self=%0 dim=[2]", "`dim` has 2, the rank is 2"},
      {"aten.mean.dim",
       {"2x3"},
       "self=%0 dim=[1] dtype=dtype:8",
       "it computes in f64, its operand is f32"},
      {"aten.cumsum.default",
       {"i32:2x3"},
       "self=%0 dim=1",
       "it adds up i32 in i32",
       "add up floats in their own dtype"},
      {"aten.cumsum.default",
       {"2x3"},
       "self=%0 dim=1 dtype=dtype:8",
       "it adds up f32 in f64",
       "add up floats in their own dtype"},
      {"aten.cumsum.default",
       {"2x1025"},
       "self=%0 dim=-1",
       "cumulative sums are a product with a matrix, of at most 1024x1024 elements; this one is "
       "1025x1025",
       "sum parts of the dimension, and add to each the sum of those before"},
      {"aten.to.dtype", {"2x3"}, "self=%0 dtype=dtype:5", "it converts f32 to i64"},
      {"aten.dropout.default",
       {"2x3"},
       "input=%0 p=0.5 train=true",
       "dropout in training mode",
       "call model.eval() before the export"},
      {"aten.alpha_dropout.default",
       {"2x3"},
       "input=%0 p=0.5 train=true",
       "dropout in training mode",
       "call model.eval() before the export"},
      {"aten.feature_dropout.default",
       {"2x3"},
       "input=%0 p=0.5 train=true",
       "dropout in training mode",
       "call model.eval() before the export"},
      {"aten.native_dropout.default",
       {"2x3"},
       "input=%0 p=0.5 train=true",
       "dropout in training mode",
       "call model.eval() before the export"},
  };
  expect_refused(refusals);
}

TEST(Pt2Refusals, Quantization) {
  const Refusal refusals[] = {
      {"quantized_decomposed.quantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=0.5 zero_point=0 quant_min=-32768 quant_max=32767 dtype=dtype:3",
       "quantization to i16; programs compute in int8",
       "quantize activations to int8"},
      {"quantized_decomposed.quantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=0.5 zero_point=0 quant_min=-200 quant_max=127 dtype=dtype:2",
       "the range -200…127 is not one of i8"},
      {"quantized_decomposed.quantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=-0.5 zero_point=0 dtype=dtype:2",
       "the scale -0.5 is not positive and finite",
       "calibrate with data that reach the operator"},
      {"quantized_decomposed.quantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=0.5 zero_point=128 dtype=dtype:2",
       "the zero point 128 is outside -128…127",
       "quantize the model again; a zero point is a code"},
      {"quantized_decomposed.quantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=0.5 zero_point=0.5 dtype=dtype:2",
       "the zero point 0.5 is not an integer",
       "quantize the model again; a zero point is a code"},
      {"quantized_decomposed.quantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=0.5 zero_point=NaN dtype=dtype:2",
       "the zero point nan is not an integer",
       "quantize the model again; a zero point is a code"},
      {"quantized_decomposed.quantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=0.0 zero_point=0 dtype=dtype:2",
       "the scale 0 is not positive and finite",
       "calibrate with data that reach the operator"},
      {"quantized_decomposed.quantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=NaN zero_point=0 dtype=dtype:2",
       "the scale nan is not positive and finite",
       "calibrate with data that reach the operator"},
      {"quantized_decomposed.quantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=Infinity zero_point=0 dtype=dtype:2",
       "the scale inf is not positive and finite",
       "calibrate with data that reach the operator"},
      {"aten.fake_quantize_per_tensor_affine.default",
       {"2x3"},
       "self=%0 scale=0.5 zero_point=300 quant_min=0 quant_max=255",
       "the zero point 300 is outside 0…255",
       "quantize the model again; a zero point is a code"},
      {"quantized_decomposed.quantize_per_tensor.tensor",
       {"2x3", "1"},
       "input=%0 scale=%1 zero_point=0 dtype=dtype:2",
       "`scale` is not constant"},
      {"quantized_decomposed.dequantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=0.5 zero_point=0 dtype=dtype:7",
       "quantized values of f32"},
      {"quantized_decomposed.dequantize_per_tensor.default",
       {"i8:2x3"},
       "input=%0 scale=0.5 zero_point=0 dtype=dtype:1",
       "a value of i8 is read as u8"},
      {"quantized_decomposed.dequantize_per_tensor.default",
       {"u8:2x3"},
       "input=%0 scale=0.5 zero_point=0 dtype=dtype:1",
       "`x0`, an input of the model, is uint8",
       "let the model take float32 or int8"},
      {"aten.fake_quantize_per_tensor_affine.default",
       {"i32:2x3"},
       "self=%0 scale=0.5 zero_point=0 quant_min=-128 quant_max=127",
       "fake quantization of i32",
       "quantize float32 values"},
      {"aten.fake_quantize_per_tensor_affine.default",
       {"2x3"},
       "self=%0 scale=0.5 zero_point=0 quant_min=-1 quant_max=255",
       "codes in -1…255",
       "train with quantization to int8"},
      {"quantized_decomposed.dequantize_per_tensor.default",
       {"i8:2x3"},
       "input=%0 scale=0.5 zero_point=0 dtype=dtype:2 out_dtype=dtype:8",
       "dequantization to f64"},
      {"quantized_decomposed.dequantize_per_channel.default",
       {"i8:2x3", "2"},
       "input=%0 scales=%1 axis=0 dtype=dtype:2",
       "`scales` is not constant"},
      {"quantized_decomposed.dequantize_per_channel.default",
       {"i8:2x3", "2"},
       "input=%0 scales=%1 axis=2 dtype=dtype:2",
       "quantization per channel of axis 2, of shape 2x3",
       "quantize the model again, along one of the axes 0…1"},
      {"aten.fake_quantize_per_channel_affine.default",
       {"2x3", "2", "2"},
       "self=%0 scale=%1 zero_point=%2 axis=-3 quant_min=-127 quant_max=127",
       "quantization per channel of axis -3, of shape 2x3",
       "quantize the model again, along one of the axes 0…1"},
  };
  expect_refused(refusals);
}

// Two readers of one int8 value that do not agree on its scale.
TEST(Pt2Refusals, ContradictingAnnotations) {
  const Refusal second{
      "quantized_decomposed.dequantize_per_tensor.default",
      {"i8:2x3"},
      "input=%0 scale=0.25 zero_point=0 quant_min=-128 quant_max=127 dtype=dtype:2",
      ""};
  const auto program = pt2::parse_pt2(
      program_of(second,
                 "input=%0 scale=0.5 zero_point=0 quant_min=-128 quant_max=127 dtype=dtype:2"),
      "one.pt2");
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(to_text(program.error()),
            "error[pt2-quantization-conflict]: one.pt2: `y`: `x0` has scale 0.5, zero point 0, "
            "range -128…127, but is read with scale 0.25, "
            "zero point 0, range -128…127\n  fix: quantize the model again, so that every reader "
            "of a value agrees on its quantization");
}

}  // namespace
}  // namespace dtr
