// Launches from several threads at once, and forks beside a thread that registers kernels, to be
// run as they are, `make stress`, and under ThreadSanitizer: `make tsan`.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/loader/registry.h"
#include "core/memory/argument_block.h"
#include "core/run/launch.h"
#include "core/run/operand_windows.h"
#include "core/run/pool.h"

namespace {

using namespace kernelcore;

struct Array {
  float* data;
  int64_t shape;
  int64_t stride_bytes;
};

struct Arguments {
  Array index;  // of int32
  Array target;
};

[[noreturn]] void fail(const char* reason) {
  std::fprintf(stderr, "%s\n", reason);
  std::exit(1);
}

// target[index[i]] += i, as compiled kernels do it.
void scatter(const void* block, const Grid* grid, int64_t begin, int64_t end) {
  const auto& args = *static_cast<const Arguments*>(block);
  const auto* index = reinterpret_cast<const int32_t*>(args.index.data);
  for (int64_t i = begin; i < end; ++i) {
    float* element = args.target.data + index[i];
    auto value = static_cast<float>(i % 7);
    if ((grid->shared & 1) == 0) {
      *element += value;
      continue;
    }
    if (grid->log->next == grid->log->end) grid->log->drain(grid->log);
    AddRecord* record = grid->log->next++;
    record->target = reinterpret_cast<uintptr_t>(element);
    record->value.narrow = value;
  }
}

LaunchDescriptor described(const char* name, KernelFn fn, size_t block_bytes,
                           std::vector<ParameterSlot> slots,
                           std::vector<Accumulated> accumulated = {}, int grid_rank = 1) {
  LaunchDescriptor descriptor;
  descriptor.name = name;
  descriptor.fn = fn;
  descriptor.block_template.resize(block_bytes);
  descriptor.grid_rank = grid_rank;
  descriptor.slots = std::move(slots);
  descriptor.accumulated = std::move(accumulated);
  descriptor.validate();
  return descriptor;
}

LaunchDescriptor scatter_of(int64_t weight) {
  return described(
      "scatter", scatter, sizeof(Arguments),
      {{offsetof(Arguments, index), Role::kInput, DType::kInt32, 1, ZeroFill::kNever, -1, -1},
       {offsetof(Arguments, target), Role::kOutput, DType::kFloat32, 1, ZeroFill::kNever, -1, -1}},
      {{1, -1, 0, 0, weight, true, false}});
}

void check(const LaunchDescriptor& descriptor, const std::vector<int32_t>& index, int64_t size) {
  std::vector<float> target(static_cast<size_t>(size));
  std::vector<float> expected(target);
  for (size_t i = 0; i < index.size(); ++i) {
    expected[static_cast<size_t>(index[i])] += static_cast<float>(i % 7);
  }
  auto points = static_cast<int64_t>(index.size());
  void* given = const_cast<int32_t*>(index.data());
  Arguments args{{static_cast<float*>(given), points, 4}, {target.data(), size, 4}};
  Launch launch = make_launch(descriptor, {&points, 1});
  run(descriptor, &args, launch, Pool::instance());
  if (target == expected) return;
  fail("sums differ");
}

struct RowArguments {
  float* x;
  int64_t shape[2];
  int64_t stride_bytes[2];
  Array total;
};

// total[i] = the sum of x[i, j] over j, of packed rows only.
void add_rows(const void* block, const Grid*, int64_t begin, int64_t end) {
  const auto& args = *static_cast<const RowArguments*>(block);
  if (args.stride_bytes[1] != sizeof(float)) fail("rows are not packed");
  for (int64_t i = begin; i < end; ++i) {
    const auto* start = reinterpret_cast<const std::byte*>(args.x) + i * args.stride_bytes[0];
    const auto* row = reinterpret_cast<const float*>(start);
    for (int64_t j = 0; j < args.shape[1]; ++j) args.total.data[i] += row[j];
  }
}

/// Threads copy the rows that their chunks of points read from a transposed array.
void check_windows() {
  constexpr int64_t kRows = 20'000, kColumns = 8;
  static const LaunchDescriptor descriptor = described(
      "add_rows", add_rows, sizeof(RowArguments),
      {{offsetof(RowArguments, x), Role::kInput, DType::kFloat32, 2, ZeroFill::kNever, 0, -1},
       {offsetof(RowArguments, total), Role::kOutput, DType::kFloat32, 1, ZeroFill::kNever, -1,
        -1}});
  OperandSpec spec{true, DType::kFloat32, 2};
  spec.windows = {{0, 0, 0, 0}};
  std::vector<float> columns(kRows * kColumns);
  for (size_t i = 0; i < columns.size(); ++i) columns[i] = static_cast<float>(i % 13);
  ArrayView view;
  view.data = columns.data();
  view.ndim = 2;
  view.item_bytes = sizeof(float);
  view.shape[0] = kRows;
  view.shape[1] = kColumns;
  view.stride_bytes[0] = 4;
  view.stride_bytes[1] = 4 * kRows;
  OperandWindows windows(descriptor);
  windows.add({descriptor.slots[0], spec}, view);
  std::vector<float> total(kRows), expected(kRows);
  for (size_t i = 0; i < columns.size(); ++i) expected[i % kRows] += columns[i];
  RowArguments args{columns.data(), {kRows, kColumns}, {4, 4 * kRows}, {total.data(), kRows, 4}};
  int64_t rows = kRows;
  Launch launch = make_launch(descriptor, {&rows, 1});
  launch.windows = &windows;
  run(descriptor, &args, launch, Pool::instance());
  if (total != expected) fail("sums of rows differ");
}

// total[k] = the columns of the grid times the sum of x[i, k] over its rows i, for the part of the
// k that the points are of the launch.
void add_columns(const void* block, const Grid* grid, int64_t begin, int64_t end) {
  const auto& args = *static_cast<const RowArguments*>(block);
  if (grid->own != 1) fail("chunks do not divide the elements");
  int64_t points = grid->dims[0] * grid->dims[1], length = args.shape[1];
  for (int64_t k = length * begin / points; k < length * end / points; ++k) {
    for (int64_t i = 0; i < grid->dims[0]; ++i) {
      args.total.data[k] += args.x[i * length + k] * static_cast<float>(grid->dims[1]);
    }
  }
}

/// Chunks add to elements of their own, without a copy.
void check_own_elements() {
  constexpr int64_t kRows = 96, kLength = 70, kColumns = 50;
  static const LaunchDescriptor descriptor = described(
      "add_columns", add_columns, sizeof(RowArguments),
      {{offsetof(RowArguments, x), Role::kInput, DType::kFloat32, 2, ZeroFill::kNever, 0, -1},
       {offsetof(RowArguments, total), Role::kOutput, DType::kFloat32, 1, ZeroFill::kNever, -1,
        -1}},
      {{1, -1, 0, 0, 1024, true, true, 0, 1, -1, 16}}, 2);
  std::vector<float> x(kRows * kLength), total(kLength), expected(kLength);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 11);
  for (size_t i = 0; i < x.size(); ++i) expected[i % kLength] += x[i] * kColumns;
  RowArguments args{x.data(), {kRows, kLength}, {4 * kLength, 4}, {total.data(), kLength, 4}};
  int64_t dims[] = {kRows, kColumns};
  Launch launch = make_launch(descriptor, dims);
  run(descriptor, &args, launch, Pool::instance());
  if (total != expected) fail("sums of columns differ");
}

std::atomic<int64_t> g_counted{0};

void count(const void*, const Grid*, int64_t begin, int64_t end) {
  g_counted += end - begin;
}

/// Threads that do not exist: what a launch asks of them runs on its own.
class NoThreads final : public Executor {
 public:
  int64_t max_threads() const override { return 2; }
  bool pays_to_start(int64_t) override { return true; }
  void run(ChunkedRun& run) override {
    counted_before = g_counted;
    run.claim_all();
  }

  int64_t counted_before = -1;
};

/// A launch shares its first chunk if the last one had as many points.
void check_sharing() {
  LaunchDescriptor descriptor = described("count", count, 0, {});
  for (auto [points, first] : {std::pair{1000, 64}, {1000, 0}, {2000, 64}, {2000, 0}}) {
    int64_t extent = points;
    Launch launch = make_launch(descriptor, {&extent, 1});
    NoThreads executor;
    g_counted = 0;
    run(descriptor, nullptr, launch, executor);
    if (g_counted != points || executor.counted_before != first) fail("a launch is shared wrongly");
  }
}

std::atomic<int64_t> g_point_us{0};

void sleeps(const void*, const Grid*, int64_t begin, int64_t end) {
  std::this_thread::sleep_for(std::chrono::microseconds(g_point_us * (end - begin)));
}

/// Two threads that take `us` to start.
class SlowThreads final : public Executor {
 public:
  int64_t max_threads() const override { return 2; }
  bool pays_to_start(int64_t) override { return true; }
  void run(ChunkedRun& run) override {
    ++runs;
    std::this_thread::sleep_for(std::chrono::microseconds(us));
    std::thread helper([&] { run.help(1); });
    run.claim_all();
    helper.join();
  }

  int64_t us = 0;
  int64_t runs = 0;
};

/// Launches of as many points have one thread or several, whichever took less.
void check_trials() {
  LaunchDescriptor descriptor = described("sleeps", sleeps, 0, {});
  SlowThreads executor;
  auto shared_of = [&](int launches, int64_t points) {
    int64_t before = executor.runs;
    for (int k = 0; k < launches; ++k) {
      Launch launch = make_launch(descriptor, {&points, 1});
      run(descriptor, nullptr, launch, executor);
    }
    return executor.runs - before;
  };
  // A thousand points take much less than the start of threads.
  g_point_us = 8;
  executor.us = 50'000;
  shared_of(13, 1000);
  if (shared_of(8, 1000) > 4) fail("launches are shared that take longer so");
  g_point_us = 300;
  if (shared_of(3, 1000) != 3) fail("launches that take longer than the last are not shared");
  g_point_us = 10;
  executor.us = 0;
  shared_of(13, 2000);
  // Some of them are trials.
  if (shared_of(60, 2000) < 50) fail("launches are not shared that take less so");
}

/// Chunks of this kernel interrupt their run, on whichever thread they are.
void stop(const void*, const Grid*, int64_t, int64_t) {
  interrupt_run();
}

/// A run of the main thread ends by an interrupt while its workers look at the status.
void check_interrupt() {
  LaunchDescriptor descriptor = described("stop", stop, 0, {});
  int64_t points = 100'000;
  Launch launch = make_launch(descriptor, {&points, 1});
  try {
    run(descriptor, nullptr, launch, Pool::instance());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInterrupted) return;
  }
  fail("a run was not interrupted");
}

/// Kernels are registered and found in several threads at once.
void check_registry(int round) {
  std::string key = "kernel " + std::to_string(round % 5);
  register_kernel(key, scatter);
  if (find_kernel(key, {}).fn != scatter) fail("a kernel was lost");
  if (count_kernels() == 0) fail("no kernel is registered");
}

/// Children register a kernel, whatever another thread of the parent was doing.
void check_forks() {
  register_kernel("known", nullptr);
  std::atomic<bool> is_over{false};
  std::thread thread([&] {
    while (!is_over) register_kernel("known", nullptr);
  });
  for (unsigned round = 0; round < 50; ++round) {
    usleep(500 + 37 * round);
    pid_t child = fork();
    if (child == 0) {
      alarm(10);
      register_kernel("other", nullptr);
      _exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) {
      std::printf("the child of fork %u did not end\n", round);
      std::exit(1);
    }
  }
  is_over = true;
  thread.join();
}

}  // namespace

int main() {
  check_trials();
  set_eager_sharing(true);
  Pool::instance().set_num_threads(4);
  check_sharing();
  // Threads share them, as they share what launches note in them.
  const LaunchDescriptor scatters[] = {scatter_of(0), scatter_of(1), scatter_of(2)};
  auto work = [&](unsigned seed) {
    for (int round = 0; round < 20; ++round) {
      constexpr int64_t kSizes[] = {50, 1000, 40'000};
      int64_t size = kSizes[round % 3];
      std::vector<int32_t> index(30'000);
      for (int32_t& i : index) {
        seed = seed * 1664525 + 1013904223;
        i = static_cast<int32_t>((seed >> 8) % static_cast<unsigned>(size));
      }
      check(scatters[round / 3 % 3], index, size);
      check_windows();
      check_own_elements();
      check_registry(round);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 3; ++seed) threads.emplace_back(work, seed);
  for (int count = 1; count < 6; ++count) {
    Pool::instance().set_num_threads(count);
    check_interrupt();
  }
  for (std::thread& thread : threads) thread.join();
  check_forks();
  std::puts("no races");
}
