/* Kernels of the models beside this file, for the tests and docs/plugins.md. */
#include <string.h>

#include "device/runtime/deuteron_kernel.h"

/* TFLite: y[n, h, w, c] = gain · x[n, h, w, c] + w, and of each channel how many x are above 0.
 * Options: the gain, a float32 in the machine's order of bytes. */
static int32_t tilt(const dtr_kernel_call* call) {
  if (call->operand_count != 1 || call->result_count != 2 || call->option_bytes != 4) return 1;
  const dtr_kernel_tensor* in = call->operands;
  if (in->rank != 4 || in->dtype != DTR_FLOAT32 || call->results[1].dtype != DTR_INT32) return 2;
  const float* x = in->data;
  float* y = call->results[0].data;
  int32_t* above = call->results[1].data;
  float gain;
  memcpy(&gain, call->options, sizeof gain);
  const size_t columns = (size_t)in->sizes[2], channels = (size_t)in->sizes[3];
  memset(above, 0, channels * sizeof *above);
  for (size_t i = 0; i < in->elements; ++i) {
    y[i] = gain * x[i] + (float)(i / channels % columns);
    if (x[i] > 0) ++above[i % channels];
  }
  return 0;
}

/* The number behind "NAME": in the options, without an exponent; 0 if it is not there. A firmware
 * has no heap and no files, which strtod of its C library would link. */
static double option(const dtr_kernel_call* call, const char* name) {
  const char *at = call->options, *end = at + call->option_bytes;
  const size_t length = strlen(name);
  double value = 0, unit = 1;
  int negative = 0, fraction = 0;
  while (at + length + 4 < end &&
         (at[0] != '"' || memcmp(at + 1, name, length) != 0 || at[1 + length] != '"'))
    ++at;
  if (at + length + 4 >= end) return 0;
  for (at += length + 4; at < end && *at != ',' && *at != '}'; ++at) {
    negative |= *at == '-';
    fraction |= *at == '.';
    if (*at < '0' || *at > '9') continue;
    value = 10 * value + (*at - '0');
    if (fraction) unit *= 10;
  }
  return (negative ? -value : value) / unit;
}

/* PyTorch: mylib::blend(Tensor x, Tensor[] others, float alpha, int shift) -> (Tensor, Tensor):
 * alpha · x + the sum of the others, and x of each row rolled by `shift`. */
static int32_t blend(const dtr_kernel_call* call) {
  const double alpha = option(call, "alpha");
  const size_t shift = (size_t)option(call, "shift"), others = (size_t)option(call, "others");
  if (call->operand_count != 1 + others || call->result_count != 2) return 1;
  const dtr_kernel_tensor* in = call->operands;
  const size_t columns = (size_t)in->sizes[in->rank - 1];
  const float* x = in->data;
  float *y = call->results[0].data, *rolled = call->results[1].data;
  for (size_t i = 0; i < in->elements; ++i) {
    float sum = (float)alpha * x[i];
    for (size_t k = 1; k <= others; ++k) sum += ((const float*)call->operands[k].data)[i];
    y[i] = sum;
    rolled[i / columns * columns + (i + shift) % columns] = x[i];
  }
  return 0;
}

/* ONNX: com.acme::Affine(x) with attributes a and b: a · x + b. */
static int32_t affine(const dtr_kernel_call* call) {
  const float a = (float)option(call, "a"), b = (float)option(call, "b");
  const float* x = call->operands->data;
  float* y = call->results->data;
  if (call->results->elements != call->operands->elements) return 1;
  for (size_t i = 0; i < call->operands->elements; ++i) y[i] = a * x[i] + b;
  return 0;
}

static const dtr_kernel kernels[] = {
    {"custom::Tilt", tilt}, {"mylib::blend.out", blend}, {"com.acme::Affine", affine}};
static const dtr_plugin plugin = {DTR_PLUGIN_ABI, sizeof kernels / sizeof *kernels, kernels};
const dtr_plugin* DTR_PLUGIN_ENTRY(void) { return &plugin; }
