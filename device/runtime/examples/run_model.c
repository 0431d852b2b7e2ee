/* Runs a compiled program on a host: run_model PROGRAM.pte INPUTS.bin OUTPUTS.bin
 * Both data files hold tensors as they lie in memory, one after the other. All memory is in one
 * static block: there is no heap. It has all kernels of a host and no NPU: programs for the targets
 * `executorch`, `cortex-m33` and `cortex-m55`. */
#include <stdio.h>
#include <string.h>

#include "device/runtime/deuteron.h"

enum { BLOCK_BYTES = 1 << 20, MOST_MEMORIES = 4 };
static uint64_t block[BLOCK_BYTES / sizeof(uint64_t)];
static size_t used = 0;

/* Bytes of the block, aligned for the runtime; data is null if they do not fit. */
static dtr_memory take(size_t bytes) {
  dtr_memory memory = {NULL, 0};
  const size_t begin =
      used + (DTR_ALIGNMENT - ((uintptr_t)block + used) % DTR_ALIGNMENT) % DTR_ALIGNMENT;
  if (begin + bytes > sizeof block) return memory;
  memory.data = (unsigned char*)block + begin;
  memory.bytes = bytes;
  used = begin + bytes;
  return memory;
}

static int fail(const char* what, dtr_status status) {
  fprintf(stderr, "%s: %s (code %d, index %u, detail %u) %s\n", what, dtr_error_text(status.error),
          (int)status.error, (unsigned)status.index, (unsigned)status.detail, status.name);
  return 1;
}

static int refuse(const char* path, const char* what) {
  fprintf(stderr, "%s %s\n", path, what);
  return 2;
}

/* Whether the run may go on: a product looks at a clock. */
static int before(void* steps_left, uint32_t step) {
  (void)step;
  return (*(int*)steps_left)-- > 0;
}

int main(int argc, char** argv) {
  dtr_model model;
  dtr_requirements need;
  dtr_memory program, state, memories[MOST_MEMORIES];
  dtr_tensor tensor;
  dtr_status status;
  int steps_left = 1000;
  dtr_observer observer = {NULL, before, NULL};
  FILE *in, *out;
  uint32_t i;
  observer.context = &steps_left;
  if (argc != 4) {
    fprintf(stderr, "usage: run_model PROGRAM.pte INPUTS.bin OUTPUTS.bin\n");
    return 2;
  }

  for (i = 1; i < 3; ++i)
    if (strcmp(argv[i], argv[3]) == 0) return refuse(argv[3], "is read, too: it would be lost");

  in = fopen(argv[1], "rb");
  if (in == NULL) return refuse(argv[1], "cannot be opened");
  program = take(BLOCK_BYTES / 2);
  program.bytes = fread(program.data, 1, program.bytes, in);
  if (ferror(in)) return refuse(argv[1], "cannot be read");
  if (fgetc(in) != EOF) return refuse(argv[1], "is larger than its memory");
  fclose(in);

  status = dtr_load(&model, program.data, program.bytes, dtr_host_environment());
  if (status.error != DTR_OK) return fail("load", status);
  status = dtr_requirements_of(&model, &need);
  if (status.error != DTR_OK) return fail("requirements", status);
  state = take(need.state_bytes);
  for (i = 0; i < need.memory_count && i < MOST_MEMORIES; ++i)
    memories[i] = take((size_t)need.memory_bytes[i]);
  status = dtr_prepare(&model, state, memories, i);
  if (status.error != DTR_OK) return fail("prepare", status);

  in = fopen(argv[2], "rb");
  if (in == NULL) return refuse(argv[2], "cannot be opened");
  for (i = 0; i < dtr_input_count(&model); ++i) {
    status = dtr_input(&model, i, &tensor);
    if (status.error != DTR_OK) return fail("input", status);
    tensor.bytes =
        fread(tensor.data, 1, tensor.bytes, in); /* straight into its place: nothing is copied */
    if (ferror(in)) return refuse(argv[2], "cannot be read");
    status = dtr_set_input(&model, i, &tensor);
    if (status.error != DTR_OK) return fail("input", status);
  }
  if (fgetc(in) != EOF) return refuse(argv[2], "has more bytes than the inputs");
  fclose(in);
  status = dtr_run(&model, &observer);
  if (status.error != DTR_OK) return fail("run", status);
  out = fopen(argv[3], "wb");
  if (out == NULL) return refuse(argv[3], "cannot be opened");
  for (i = 0; i < dtr_output_count(&model); ++i) {
    status = dtr_output(&model, i, &tensor);
    if (status.error != DTR_OK) return fail("output", status);
    fwrite(tensor.data, 1, tensor.bytes, out);
  }
  if (ferror(out) | fclose(out)) return refuse(argv[3], "cannot be written");
  dtr_release(&model);
  return 0;
}
