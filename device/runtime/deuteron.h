/* Deuteron's runtime for C: loads a compiled program (.pte) and runs it in memory that the caller
 * gives. C99; no heap, no global state.
 *
 *   dtr_load(&model, program, bytes, environment);      checks the program once
 *   dtr_requirements_of(&model, &need);                 how much memory it needs
 *   dtr_prepare(&model, state, memories, count);
 *   dtr_set_input(&model, 0, &tensor);                  before every run
 *   dtr_run(&model, NULL);
 *   dtr_output(&model, 0, &tensor);
 *
 * Complete examples: device/runtime/examples/run_model.c on a host, main.c of a firmware project.
 * Two threads may use two models, not one.
 */
#ifndef DEUTERON_H
#define DEUTERON_H

/* NOLINTBEGIN(readability-identifier-naming,modernize-*): names and language are C's. */

#include <stddef.h>
#include <stdint.h>

#include "device/runtime/deuteron_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DTR_ALIGNMENT 16     /* of the program's first byte, of the state and of every memory */
#define DTR_STATE UINT32_MAX /* dtr_status.index of an error of the state memory */

typedef enum dtr_error {
  DTR_OK = 0,
  /* The program. */
  DTR_TRUNCATED,
  DTR_NOT_A_PROGRAM,
  DTR_NEWER_VERSION,
  DTR_MALFORMED,
  DTR_BAD_CHECKSUM,
  DTR_MISALIGNED,
  DTR_UNSUPPORTED,
  DTR_WRONG_TARGET,
  DTR_MISSING_METHOD,
  DTR_MISSING_KERNEL,
  DTR_MISSING_DELEGATE,
  DTR_MISSING_DATA,
  DTR_NOT_A_TENSOR_FILE,
  /* The caller's memory; index: which (DTR_STATE: the state), detail: bytes needed. */
  DTR_ARENA_TOO_SMALL,
  DTR_ARENA_MISALIGNED,
  /* Inputs and outputs; index: which. */
  DTR_NO_SUCH_TENSOR,
  DTR_INPUT_DTYPE,
  DTR_INPUT_SHAPE,
  DTR_INPUT_DIM_ORDER,
  DTR_INPUT_SIZE,
  DTR_INPUT_NOT_SET,
  DTR_OUTPUT_NOT_SET,
  /* The run; index: the step, name: its operator or delegate, detail: the own code of a
   * plug-in's kernel or of the driver. */
  DTR_KERNEL_ARGUMENTS,
  DTR_KERNEL_DTYPE,
  DTR_KERNEL_FAILED,
  DTR_DELEGATE_REFUSED,
  DTR_DELEGATE_FAILED,
  DTR_STOPPED,
  /* Use of the interface. */
  DTR_NOT_PREPARED, /* a model that was not loaded or not prepared, or was released */
  DTR_NULL,         /* null where there should be bytes; index: which memory, input or output */
  DTR_KERNEL_INDEX  /* the run: an index in the data is outside of the tensor that it is for */
} dtr_error;

/* One sentence, without a full stop. */
const char* dtr_error_text(dtr_error error);

typedef struct dtr_status {
  dtr_error error;
  uint32_t index, detail;
  const char* name; /* points into the program; "" if there is none */
} dtr_status;

typedef struct dtr_tensor {
  void* data;
  size_t bytes;
  dtr_dtype dtype;
  uint32_t rank;
  const int32_t* sizes;     /* in logical (PyTorch) order */
  const uint8_t* dim_order; /* logical dimension at each physical position, outermost first: 0 1 2
                               3, or 0 2 3 1 for channels-last */
} dtr_tensor;

/* Kernels and delegates that programs may call. A firmware project has just those of its program
 * behind `model_start`; on a host `dtr_host_environment` has all kernels. */
typedef struct dtr_environment dtr_environment;
const dtr_environment* dtr_host_environment(void);

/* A loaded program. Its fields are the runtime's; its address must not change between load and
 * release. Calls with a model that dtr_load has not seen at this place, or with null, change
 * nothing: they return DTR_NOT_PREPARED, counts are 0 and names are "". */
typedef struct dtr_model {
  void* reserved[32];
} dtr_model;

/* Checks the program, which must outlive the model and is used in place; its first method
 * runs, unless dtr_choose_method names another. After an error the model is empty. The model needs
 * no initialization; one that is prepared is released before it is loaded again. DTR_NULL: the
 * program, with bytes, the environment or the model is null. */
dtr_status dtr_load(dtr_model* model, const void* program, size_t bytes,
                    const dtr_environment* environment);

/* The same for a program with operators of plug-ins: `plugins` has what their entries return
 * (deuteron_kernel.h), and must outlive the model. */
dtr_status dtr_load_with_plugins(dtr_model* model, const void* program, size_t bytes,
                                 const dtr_environment* environment,
                                 const dtr_plugin* const* plugins, uint32_t plugin_count);

/* The methods of a loaded program; "" if there is no such method. */
uint32_t dtr_method_count(const dtr_model* model);
const char* dtr_method_name(const dtr_model* model, uint32_t index);
/* The method that dtr_requirements_of, dtr_prepare and the calls behind them mean. A prepared model
 * is released. Several methods of a program are prepared in models of their own, which load the
 * same bytes. DTR_MISSING_METHOD: the program has none of that name. */
dtr_status dtr_choose_method(dtr_model* model, const char* name);

typedef struct dtr_requirements {
  size_t state_bytes;
  uint32_t memory_count;
  const int64_t* memory_bytes; /* of each; points into the program */
} dtr_requirements;
dtr_status dtr_requirements_of(const dtr_model* model, dtr_requirements* requirements);

typedef struct dtr_memory {
  void* data;
  size_t bytes;
} dtr_memory;
/* The memories hold inputs, outputs and intermediate tensors while a run lasts: two models may
 * share theirs if they run in turn, each one's outputs are read before the other runs and neither
 * has states (dtr_has_states). The state is of one model. At most 8 memories. DTR_NULL: one that
 * needs bytes is null, or the array is null and the count is not 0. */
dtr_status dtr_prepare(dtr_model* model, dtr_memory state, const dtr_memory* memories,
                       uint32_t memory_count);
/* Sets the states of the program (the buffers that a streaming model keeps between runs) to their
 * initial values, as dtr_prepare does: call it to begin a new stream, before inputs are set.
 * DTR_NOT_PREPARED: the model was not prepared. */
dtr_status dtr_reset(dtr_model* model);
/* 1 if the program has states, else 0. Memories of a program with states must not be shared. */
int dtr_has_states(const dtr_model* model);
/* Releases the states of delegates; dtr_load or dtr_prepare may follow. Until then dtr_run is an
 * error. */
void dtr_release(dtr_model* model);

uint32_t dtr_input_count(const dtr_model* model);
uint32_t dtr_output_count(const dtr_model* model);
/* The address, dtype and shape of input or output `index`. `data` of an input is its place
 * in the planned memory, where it may be written before dtr_set_input: nothing is copied then. */
dtr_status dtr_input(const dtr_model* model, uint32_t index, dtr_tensor* tensor);
dtr_status dtr_output(const dtr_model* model, uint32_t index, dtr_tensor* tensor);

/* What the codes of a quantized input or output mean: value = scale * (code - zero_point), for
 * codes from minimum to maximum. To quantize, round value / scale to the nearest code, halves to
 * even. */
typedef struct dtr_quantization {
  float scale;
  int32_t zero_point, minimum, maximum;
} dtr_quantization;
/* 1 if the program tells it (`deuteron compile --io int8`), else 0: the tensor has values, or there
 * is none. Of a loaded model; functions that are not called are not linked. */
int dtr_input_quantization(const dtr_model* model, uint32_t index, dtr_quantization* quantization);
int dtr_output_quantization(const dtr_model* model, uint32_t index, dtr_quantization* quantization);

/* Before every run, since a run reuses the memory of its inputs. dtype, sizes, dimension order
 * and bytes must be those of the program. The data may overlap with the input's place in part.
 * DTR_NULL: data, sizes or dimension order are null, but have entries. */
dtr_status dtr_set_input(dtr_model* model, uint32_t index, const dtr_tensor* tensor);
/* Only for an output that the program leaves to the caller (its `data` is null). DTR_NULL: null for
 * an output that has bytes. */
dtr_status dtr_set_output_memory(dtr_model* model, uint32_t index, dtr_memory memory);

/* Called before and after each step; either function may be null. If `before` returns 0, the run
 * ends with DTR_STOPPED. */
typedef struct dtr_observer {
  void* context;
  int (*before)(void* context, uint32_t step);
  void (*after)(void* context, uint32_t step);
} dtr_observer;
/* `observer` may be null. After an error all inputs must be set again, then the model can be run
 * again. DTR_NOT_PREPARED: the model was not loaded or not prepared, or one of both failed, or it
 * was released. */
dtr_status dtr_run(dtr_model* model, const dtr_observer* observer);

/* A profile: what the steps of a run and the NPU's commands cost, 16 bytes an event, in memory of
 * the caller. Functions that are not called are not linked. Written to a file, header first,
 * `deuteron profile FILE --program M.pte` shows it (docs/profiling.md). */
typedef struct dtr_profile_record {
  uint32_t words[4];
} dtr_profile_record;
typedef struct dtr_profile {
  uint64_t reserved[16];
} dtr_profile;

typedef struct dtr_clock {
  uint64_t (*now)(void* context); /* in cycles of the core */
  void* context;
  uint32_t bits; /* of the counter, 40 at most: it may begin at 0 again, as long as two events are
                    less apart than that */
} dtr_clock;

/* Room for `count` events: the oldest are kept, the others are counted. Records (null: there is
 * room for none) and clock are used until the last run that is recorded. */
void dtr_profile_begin(dtr_profile* profile, dtr_profile_record* records, uint32_t count,
                       dtr_clock clock);
/* dtr_run, recorded after the events that the profile has. The clock is read before
 * observer->before and after observer->after. The NPU's commands are recorded if `model_profile` of
 * the project was called with the profile. */
dtr_status dtr_run_profiled(dtr_model* model, const dtr_observer* observer, dtr_profile* profile);

/* dtr_load and dtr_prepare may be between a start and its stop, which takes the number that the
 * start returned. A stop of a number that no start returned since the profile was cleared, or that
 * was stopped, writes nothing. */
typedef enum dtr_profile_event { DTR_PROFILE_LOAD = 16, DTR_PROFILE_INIT = 17 } dtr_profile_event;
size_t dtr_profile_start(dtr_profile* profile, dtr_profile_event event);
void dtr_profile_stop(dtr_profile* profile, size_t started);

uint32_t dtr_profile_count(const dtr_profile* profile); /* events in the buffer */
uint32_t dtr_profile_lost(const dtr_profile* profile);  /* for which there was no room */
void dtr_profile_clear(
    dtr_profile* profile); /* before the next run: a file has each run with its header */

/* The header of the records in a file. `program` is the checksum of the program (of a firmware
 * project: `MODEL_CHECKSUM`), `status` what the run returned; `unit` is what the clock counts. */
typedef enum dtr_profile_unit {
  DTR_PROFILE_INSTRUCTIONS = 1,
  DTR_PROFILE_CYCLES = 2
} dtr_profile_unit;
typedef struct dtr_profile_header {
  uint32_t words[9];
} dtr_profile_header;
dtr_profile_header dtr_profile_header_of(const dtr_profile* profile, uint32_t program,
                                         dtr_status status, dtr_profile_unit unit);

uint32_t dtr_step_count(const dtr_model* model);
/* Operator or delegate of a step; "" if there is no such step. */
const char* dtr_step_name(const dtr_model* model, uint32_t step);
/* Whether a delegate runs it: 1, or 0 for a kernel. */
int dtr_step_is_delegate(const dtr_model* model, uint32_t step);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming,modernize-*) */

#endif
