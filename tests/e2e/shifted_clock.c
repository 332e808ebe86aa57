// A preloaded library that shifts a process's time of day by the number of seconds in the file named
// by SHIFTED_CLOCK. The file may be replaced while the process runs. Other clocks and file times are
// unaffected.
//
// It replaces libfaketime, which leaves a semaphore and a shared memory segment behind for each
// killed process; a later process with the same pid but another user cannot open them. Besides,
// libfaketime does not work with jemalloc, which asks for the time before libfaketime is initialized.
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static char path[PATH_MAX];  // a copy, because nginx writes its process title over the environment

__attribute__((constructor)) static void remember_path(void) {
  const char* const name = getenv("SHIFTED_CLOCK");
  if (name && strlen(name) < sizeof path) strcpy(path, name);
}

static time_t shift(void) {
  char text[32] = {0};
  const int file = *path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return 0;
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  return length > 0 ? strtol(text, NULL, 10) : 0;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  const long done = syscall(SYS_gettimeofday, now, zone);
  now->tv_sec += shift();
  return (int)done;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const long done = syscall(SYS_clock_gettime, clock, now);
  if (done == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += shift();
  return (int)done;
}

time_t time(time_t* result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result) *result = now.tv_sec;
  return now.tv_sec;
}
