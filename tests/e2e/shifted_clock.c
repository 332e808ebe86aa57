// Preloaded into a process: its time of day, off by as many seconds as the file SHIFTED_CLOCK says, which may be replaced
// meanwhile. Other clocks and the times of files stay. libfaketime leaves a semaphore and a segment of shared memory behind for each
// process that is killed, which a later process of that id and another user may not open; and it does not get along with jemalloc,
// which asks for the time before it is set up.
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static char path[PATH_MAX];  // a copy: nginx writes its title over the environment

__attribute__((constructor)) static void note_path(void) {
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

time_t time(time_t* also) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (also) *also = now.tv_sec;
  return now.tv_sec;
}
