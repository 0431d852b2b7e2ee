/* Files of the host and text for it, for C: see semihosting.h. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming,modernize-*): names and language are C's. */
typedef uint32_t port_file;
#define PORT_CLOSED UINT32_MAX

enum port_mode { PORT_READ = 1, PORT_WRITE = 5 };
port_file port_open(const char* path, enum port_mode mode); /* PORT_CLOSED if it cannot be */
void port_close(port_file file);
size_t port_read(port_file file, void* data, size_t bytes);     /* bytes that were read */
int port_write(port_file file, const void* data, size_t bytes); /* whether all were written */
void port_print(const char* text);
#ifdef __cplusplus
[[noreturn]]
#endif
void port_exit(uint32_t code);
uint64_t port_instructions(void); /* executed since the start; see counter.h */
/* NOLINTEND(readability-identifier-naming,modernize-*) */

#ifdef __cplusplus
}
#endif
