/* Kernels of operators that Deuteron does not know, for a plug-in: one C source that the compiler
 * and the simulator load on a computer, and that a firmware project builds in. C99; no other header
 * of Deuteron is needed. docs/plugins.md explains it by an example.
 *
 *   static int32_t twice(const dtr_kernel_call* call) { … return 0; }
 *   static const dtr_kernel kernels[] = {{"custom::Twice", twice}};
 *   static const dtr_plugin plugin = {DTR_PLUGIN_ABI, 1, kernels};
 *   const dtr_plugin* DTR_PLUGIN_ENTRY(void) { return &plugin; }
 */
#ifndef DEUTERON_KERNEL_H
#define DEUTERON_KERNEL_H

/* NOLINTBEGIN(readability-identifier-naming,modernize-*): names and language are C's. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers of PyTorch's dtypes. */
typedef enum dtr_dtype {
  DTR_UINT8 = 0,
  DTR_INT8 = 1,
  DTR_INT16 = 2,
  DTR_INT32 = 3,
  DTR_INT64 = 4,
  DTR_FLOAT16 = 5,
  DTR_FLOAT32 = 6,
  DTR_FLOAT64 = 7,
  DTR_BOOL = 11
} dtr_dtype;

#define DTR_PLUGIN_ABI 1u      /* of the structures below; raised when one of them changes */
#define DTR_KERNEL_TENSORS 16u /* at most so many operands, and so many results */

/* A dense tensor; dimensions are in the order of the model file, the last one is contiguous. */
typedef struct dtr_kernel_tensor {
  void* data;           /* of an operand: read only */
  const int32_t* sizes; /* `rank` extents */
  uint32_t rank;
  uint32_t dtype;  /* a dtr_dtype; quantized tensors are DTR_FLOAT32, their real values */
  size_t elements; /* the product of `sizes` */
} dtr_kernel_tensor;

typedef struct dtr_kernel_call {
  const dtr_kernel_tensor* operands;
  const dtr_kernel_tensor* results; /* of known shapes: the kernel writes every element */
  uint32_t operand_count, result_count;
  /* Of TFLite: the operator's custom_options as they are in the file, at any alignment. Of PyTorch
   * and ONNX: the arguments that are no tensors as a JSON object, by name. */
  const void* options;
  size_t option_bytes;
} dtr_kernel_call;

/* Computes the results from the operands and the options alone: kernels keep nothing between calls,
 * and calls may run in several threads. Returns 0, or a number of its own that the error shows. */
typedef int32_t (*dtr_kernel_function)(const dtr_kernel_call* call);

typedef struct dtr_kernel {
  const char* name; /* "custom::NAME" of TFLite, "ns::op.out" of PyTorch, "domain::NAME" of ONNX */
  dtr_kernel_function function;
} dtr_kernel;

typedef struct dtr_plugin {
  uint32_t abi; /* DTR_PLUGIN_ABI */
  uint32_t kernel_count;
  const dtr_kernel* kernels;
} dtr_plugin;

/* What a plug-in exports. A firmware project renames it where it has several plug-ins. */
#ifndef DTR_PLUGIN_ENTRY
#define DTR_PLUGIN_ENTRY dtr_plugin_entry
#endif
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const dtr_plugin*
DTR_PLUGIN_ENTRY(void);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming,modernize-*) */

#endif
