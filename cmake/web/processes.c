// System calls that Emscripten's C library declares and does not have: a page starts no process.
#include <errno.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>

static int none(void) {
  errno = ENOSYS;
  return -1;
}
int prctl(int option, ...) { return none(); }
int socketpair(int domain, int type, int protocol, int sockets[2]) { return none(); }
int posix_spawnp(pid_t* restrict process, const char* restrict file,
                 const posix_spawn_file_actions_t* actions, const posix_spawnattr_t* restrict with,
                 char* const* restrict arguments, char* const* restrict variables) {
  return ENOSYS;
}
