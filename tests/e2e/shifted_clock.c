// Preloaded into redis-server: its clock, off by as many seconds as the file SHIFTED_CLOCK says.
// libfaketime does not get along with jemalloc, which asks for the time before it is set up.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static int file = -1;

__attribute__((constructor)) static void open_file(void) {
  const char* const name = getenv("SHIFTED_CLOCK");
  if (name) file = open(name, O_RDONLY | O_CLOEXEC);
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  char text[32] = {0};
  const long done = syscall(SYS_gettimeofday, now, zone);
  if (file >= 0 && pread(file, text, sizeof text - 1, 0) > 0) now->tv_sec += strtol(text, NULL, 10);
  return (int)done;
}
