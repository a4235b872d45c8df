#include "core/run/placement.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace kernelcore {

#if defined(__linux__)

int current_cpu() {
  return sched_getcpu();
}

void leave_cpu(int cpu, int number) {
  cpu_set_t allowed;
  if (cpu < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  // On more threads than processors some share one, as they would anyway.
  int steps = number % CPU_COUNT(&allowed);
  int target = cpu;
  while (steps > 0) {
    target = (target + 1) % CPU_SETSIZE;
    steps -= CPU_ISSET(target, &allowed) ? 1 : 0;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(target, &one);
  if (sched_setaffinity(0, sizeof one, &one) == 0) sched_setaffinity(0, sizeof allowed, &allowed);
}

#else

int current_cpu() {
  return -1;
}

void leave_cpu(int, int) {}

#endif

}  // namespace kernelcore
