/* A wall clock that a test moves: preloaded into a server.
 *
 * TENURE_CLOCK names a file of eight bytes: by how many microseconds the clock is off. It is mapped,
 * so that a write by the test is seen at once. The monotonic clock stays as it is.
 *
 * Debian's package faketime does the same for most programs; but its library calls the allocator
 * while it starts, and the one that redis-server uses asks for the time while it starts.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *off_us;

__attribute__((constructor)) static void start(void) {
  const char *path = getenv("TENURE_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) {
    return;
  }
  void *map = mmap(NULL, sizeof *off_us, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (map != MAP_FAILED) {
    off_us = map;
  }
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && off_us && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    int64_t off = *off_us;
    now->tv_sec += off / 1000000;
    now->tv_nsec += off % 1000000 * 1000;
    if (now->tv_nsec < 0) {
      now->tv_sec -= 1;
      now->tv_nsec += 1000000000;
    } else if (now->tv_nsec >= 1000000000) {
      now->tv_sec += 1;
      now->tv_nsec -= 1000000000;
    }
  }
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *where) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (where) {
    *where = exact.tv_sec;
  }
  return exact.tv_sec;
}
