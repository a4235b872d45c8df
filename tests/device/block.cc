// Blocks of a CUDA launch on this processor: what device code asks of its hardware.
//
// Every thread of a block is a context of its own; they take turns where they wait for each other.
// Warps wait for all 32 lanes in whatever they do together. A lane that has left, or does something
// else meanwhile, is an error that `run_grid` counts.

#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr int kLanes = 32;
constexpr int kUndefined = 0x5EEDED;
constexpr size_t kStackBytes = 256 << 10;
using Kernel = void (*)(const void*, const void*, int64_t, int64_t);

enum class Doing { kLeft, kShuffle, kMatch, kVote, kBarrier };

// Threads that do something together: a warp, or a block.
struct Group {
  explicit Group(int count) : doing(count), given(count) {}
  std::vector<Doing> doing;
  std::vector<uint64_t> given;
  std::vector<uint64_t> taken;
  int arrived = 0;
  int left = 0;
  int turns = 0;
};

struct Thread {
  ucontext_t context{};
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  int index = 0;
  Group* warp = nullptr;
  Group* block = nullptr;
  bool is_done = false;
};

struct Launch {
  Kernel kernel;
  const void* args;
  const void* grid;
  int64_t end;
};

ucontext_t scheduler;
Thread* self;
Launch launch;
int block_index, block_count, block_threads, misuses;
bool is_converged;
std::string printed;

int lane() {
  return self->index % kLanes;
}

// Goes on where all threads of the group have arrived or left.
void pass(Group& group) {
  if (group.arrived == 0 || group.arrived + group.left < static_cast<int>(group.doing.size())) {
    return;
  }
  for (Doing doing : group.doing) misuses += doing != group.doing[0];
  group.taken = group.given;
  group.arrived = 0;
  ++group.turns;
}

// The values that the threads of the group give, once all have come to do the same.
const std::vector<uint64_t>& together(Group& group, int at, Doing doing, uint64_t value) {
  group.doing[at] = doing;
  group.given[at] = value;
  ++group.arrived;
  int turn = group.turns;
  pass(group);
  while (group.turns == turn) swapcontext(&self->context, &scheduler);
  return group.taken;
}

void leave(Group& group, int at) {
  group.doing[at] = Doing::kLeft;
  ++group.left;
  pass(group);
}

void run_thread() {
  launch.kernel(launch.args, launch.grid, 0, launch.end);
  leave(*self->warp, lane());
  leave(*self->block, self->index);
  self->is_done = true;
}

void start(Thread& thread, int index, Group& warp, Group& block) {
  thread.index = index;
  thread.warp = &warp;
  thread.block = &block;
  thread.is_done = false;
  getcontext(&thread.context);
  thread.context.uc_stack.ss_sp = thread.stack.get();
  thread.context.uc_stack.ss_size = kStackBytes;
  thread.context.uc_link = &scheduler;
  makecontext(&thread.context, run_thread, 0);
}

void run_block(std::vector<Thread>& threads) {
  Group block(block_threads);
  std::vector<Group> warps;
  for (int at = 0; at < block_threads; at += kLanes) {
    warps.emplace_back(std::min(kLanes, block_threads - at));
  }
  for (int at = 0; at < block_threads; ++at) start(threads[at], at, warps[at / kLanes], block);
  for (int running = block_threads; running > 0;) {
    running = 0;
    for (Thread& thread : threads) {
      if (thread.is_done) continue;
      self = &thread;
      swapcontext(&scheduler, &thread.context);
      running += !thread.is_done;
    }
  }
}

// Towards zero and within the limits of T.
template <typename T, typename F>
T truncated(F x, T of_nan) {
  if (std::isnan(x)) return of_nan;
  if (x <= static_cast<F>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  // The largest T may round up to a float that no T is.
  constexpr F kBeyond = static_cast<F>(T{1} << (std::numeric_limits<T>::digits - 1)) * 2;
  return x >= kBeyond ? std::numeric_limits<T>::max() : static_cast<T>(x);
}

int lanes() {
  return static_cast<int>(self->warp->doing.size());
}

void expect_all(int mask) {
  misuses += mask != static_cast<int>(~0u >> (kLanes - lanes()));
}

}  // namespace

extern "C" {

int emulated_read_ptx_sreg_tid_x() {
  return self->index;
}
int emulated_read_ptx_sreg_ctaid_x() {
  return block_index;
}
int emulated_read_ptx_sreg_nctaid_x() {
  return block_count;
}
int emulated_read_ptx_sreg_ntid_x() {
  return block_threads;
}
int64_t emulated_advance(int64_t position) {
  return position + int64_t{block_count} * block_threads;
}
int32_t emulated_low_half(int64_t value) {
  return static_cast<int32_t>(value);
}
int64_t emulated_signed_product(int32_t index, int64_t stride) {
  return index * stride;
}
int64_t emulated_unsigned_product(uint32_t index, int64_t stride) {
  return index * stride;
}

// Source: PTX ISA, cvt.
int32_t emulated_s32_of_f32(float x) {
  return truncated<int32_t>(x, 0);
}
uint32_t emulated_u32_of_f32(float x) {
  return truncated<uint32_t>(x, 0);
}
int64_t emulated_s64_of_f32(float x) {
  return truncated<int64_t>(x, INT64_MIN);
}
uint64_t emulated_u64_of_f32(float x) {
  return truncated<uint64_t>(x, uint64_t{1} << 63);
}
int32_t emulated_s32_of_f64(double x) {
  return truncated<int32_t>(x, INT32_MIN);
}
uint32_t emulated_u32_of_f64(double x) {
  return truncated<uint32_t>(x, uint32_t{1} << 31);
}
int64_t emulated_s64_of_f64(double x) {
  return truncated<int64_t>(x, INT64_MIN);
}
uint64_t emulated_u64_of_f64(double x) {
  return truncated<uint64_t>(x, uint64_t{1} << 63);
}

// As far off as hardware may be: one of the two floats around the reciprocal.
float emulated_rcp_approx_ftz_f(float x) {
  double exact = 1.0 / static_cast<double>(x);
  float near = static_cast<float>(exact);
  if ((std::bit_cast<uint32_t>(x) & 1) != 0) return near;
  return std::nextafter(near, near < exact ? HUGE_VALF : -HUGE_VALF);
}
// The upper halves of the operand and the result, rounded up, are all there is.
double emulated_rcp_approx_ftz_d(double x) {
  constexpr uint64_t kUpper = ~uint64_t{0} << 32;
  double coarse = std::bit_cast<double>(std::bit_cast<uint64_t>(x) & kUpper);
  return std::bit_cast<double>((std::bit_cast<uint64_t>(1.0 / coarse) + ~kUpper) & kUpper);
}

// Alone, unless it is known that warps never part.
int emulated_activemask() {
  return is_converged ? -1 : static_cast<int>(1u << lane());
}

int emulated_shfl_sync_down_i32(int mask, int value, int delta, int) {
  expect_all(mask);
  const auto& all = together(*self->warp, lane(), Doing::kShuffle, static_cast<uint32_t>(value));
  int from = lane() + delta;
  if (from >= kLanes) from = lane();
  return from < lanes() ? static_cast<int>(all[from]) : kUndefined;
}

int emulated_are_equal(int mask, int64_t value) {
  expect_all(mask);
  const auto& all = together(*self->warp, lane(), Doing::kMatch, value);
  bool same = true;
  for (uint64_t other : all) same &= other == all[0];
  return same;
}

bool emulated_barrier_cta_red_or_aligned_all(int, bool value) {
  uint64_t any = 0;
  for (uint64_t v : together(*self->block, self->index, Doing::kVote, value)) any |= v;
  return any != 0;
}

void emulated_barrier_cta_sync_aligned_all(int) {
  together(*self->block, self->index, Doing::kBarrier, 0);
}

// The format is that of `printf`, the arguments are fields of a struct: 4 bytes for %c, else 8.
int emulated_vprintf(const char* format, const char* arguments) {
  size_t offset = 0;
  auto next = [&]<typename T>(T value) {
    offset = (offset + sizeof value - 1) / sizeof value * sizeof value;
    std::memcpy(&value, arguments + offset, sizeof value);
    offset += sizeof value;
    return value;
  };
  for (const char* at = format; *at != '\0';) {
    if (*at != '%') {
      printed += *at++;
      continue;
    }
    std::string directive(at, 1 + std::strcspn(at + 1, "%csdiuoxXeEfFgG") + 1);
    at += directive.size();
    char buffer[512];
    char kind = directive.back();
    if (kind == '%') {
      std::snprintf(buffer, sizeof buffer, "%%");
    } else if (std::strchr("eEfFgG", kind) != nullptr) {
      std::snprintf(buffer, sizeof buffer, directive.c_str(), next(0.0));
    } else if (kind == 'c') {
      printed += static_cast<char>(next(0));
      continue;
    } else {
      std::snprintf(buffer, sizeof buffer, directive.c_str(), next(uint64_t{0}));
    }
    printed += buffer;
  }
  return 0;
}

const char* printed_text() {
  return printed.c_str();
}
int64_t printed_bytes() {
  return static_cast<int64_t>(printed.size());
}

// Runs `blocks` blocks of `threads` one after the other; returns how often lanes disagreed.
int run_grid(Kernel kernel, const void* args, const void* grid, int64_t end, int blocks,
             int threads, int converged) {
  static std::vector<Thread> pool;
  if (pool.size() != static_cast<size_t>(threads)) pool = std::vector<Thread>(threads);
  launch = {kernel, args, grid, end};
  block_count = blocks;
  block_threads = threads;
  is_converged = converged != 0;
  misuses = 0;
  printed.clear();
  for (block_index = 0; block_index < blocks; ++block_index) run_block(pool);
  return misuses;
}
}
