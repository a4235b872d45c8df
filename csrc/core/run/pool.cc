#include "core/run/pool.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "core/error.h"
#include "core/run/spin_wait.h"

namespace kernelcore {
namespace {

// How long a worker waits for the next run before it sleeps, and what starting one takes then.
constexpr int64_t kSpinNs = 50'000;
constexpr int64_t kHotDispatchNs = kLeastDispatchNs;
constexpr int64_t kColdDispatchNs = 30'000;
// Shorter runs keep one thread, however many follow: workers that wait for them take more from
// other programs than they give.
constexpr int64_t kLeastSavedInChainNs = 8'000;

std::atomic<Pool*> g_pool{nullptr};
std::atomic<int> g_requested_threads{0};  // 0: not set by the user

int64_t now_ns() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

/// The value of KC_NUM_THREADS; 0 if it is not set.
int threads_of_environment() {
  const char* text = std::getenv("KC_NUM_THREADS");
  if (text == nullptr || *text == '\0') return 0;
  const char* end = text + std::strlen(text);
  int count = 0;
  auto [rest, error] = std::from_chars(text, end, count);
  if (error != std::errc() || rest != end || count < 1) {
    throw Error(ErrorKind::kArgument,
                "KC_NUM_THREADS: expected an integer of at least 1, found '" + std::string(text) +
                    "'\n  help: unset it to use all processors of this process");
  }
  return count;
}

int initial_threads() {
  int requested = g_requested_threads.load(std::memory_order_relaxed);
  if (requested == 0) requested = threads_of_environment();
  return std::clamp(requested != 0 ? requested : available_cpus(), 1, kMaxThreads);
}

// The workers of the parent do not exist in the child, so its pool is dropped, never destroyed.
void forget_pool_in_child() {
  g_pool.store(nullptr, std::memory_order_release);
}

/// Blocks all signals for its lifetime, so that new threads never run Python's handlers.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &saved_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t saved_;
};

}  // namespace

Pool& Pool::instance() {
  if (Pool* pool = g_pool.load(std::memory_order_acquire)) return *pool;
  static const int registered = pthread_atfork(nullptr, nullptr, forget_pool_in_child);
  static_cast<void>(registered);
  // Never destroyed: workers may outlive static destructors at exit.
  auto* fresh = new Pool();
  Pool* expected = nullptr;
  if (g_pool.compare_exchange_strong(expected, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;
  return *expected;
}

Pool::Pool() : num_threads_(initial_threads()) {}

void Pool::set_num_threads(int count) {
  while (busy_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  stop();
  int clamped = std::clamp(count, 1, kMaxThreads);
  g_requested_threads.store(clamped, std::memory_order_relaxed);
  num_threads_.store(clamped, std::memory_order_relaxed);
  busy_.store(false, std::memory_order_release);
}

bool Pool::pays_to_start(int64_t saved_ns) {
  if (awake_.load(std::memory_order_relaxed) > 0) return saved_ns >= kHotDispatchNs;
  if (saved_ns >= kColdDispatchNs) return true;
  return saved_ns >= kLeastSavedInChainNs && pays_to_wake(saved_ns);
}

// Short runs in a chain wake the workers once they have forgone as much time as that takes: no
// order of runs then takes more than twice what it would if the rest of the chain were known.
bool Pool::pays_to_wake(int64_t saved_ns) {
  int64_t now = now_ns();
  // A run takes at most twice what two threads save of it. Later, workers would be asleep again.
  int64_t longest = kSpinNs + 2 * saved_ns;
  bool in_chain = now - last_forgone_at_.exchange(now, std::memory_order_relaxed) < longest;
  int64_t before = in_chain ? forgone_ns_.load(std::memory_order_relaxed) : 0;
  int64_t forgone_ns = before + saved_ns - kHotDispatchNs;
  bool pays = forgone_ns >= kColdDispatchNs;
  forgone_ns_.store(pays ? 0 : forgone_ns, std::memory_order_relaxed);
  return pays;
}

void Pool::run(ChunkedRun& run) {
  if (num_threads() == 1 || busy_.exchange(true, std::memory_order_acquire)) {
    run.claim_all();
    return;
  }
  if (workers_.empty()) start();
  gate_.open(run);
  generation_.fetch_add(1, std::memory_order_seq_cst);
  generation_.notify_all();
  run.claim_all();
  run.wait();
  gate_.close();
  busy_.store(false, std::memory_order_release);
}

void Pool::start() {
  SignalsBlocked blocked;
  int32_t seen = generation_.load(std::memory_order_relaxed);
  auto wanted = static_cast<size_t>(num_threads() - 1);
  workers_.reserve(wanted);
  try {
    while (workers_.size() < wanted) {
      auto helper = static_cast<int64_t>(workers_.size()) + 1;
      workers_.emplace_back([this, helper, seen] { work(helper, seen); });
    }
  } catch (const std::system_error&) {
    // No more threads are available: the caller and those that started do the work.
    if (workers_.empty()) num_threads_.store(1, std::memory_order_relaxed);
  }
}

void Pool::stop() {
  stopping_.store(true, std::memory_order_seq_cst);
  generation_.fetch_add(1, std::memory_order_seq_cst);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
  stopping_.store(false, std::memory_order_seq_cst);
}

void Pool::work(int64_t helper, int32_t seen) {
  awake_.fetch_add(1, std::memory_order_relaxed);
  while (true) {
    wait_for_change(seen);
    seen = generation_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_acquire)) break;
    gate_.help(helper);
  }
  awake_.fetch_sub(1, std::memory_order_relaxed);
}

void Pool::wait_for_change(int32_t seen) {
  constexpr int kPausesPerClockRead = 64;
  int64_t deadline = now_ns() + kSpinNs;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (generation_.load(std::memory_order_acquire) != seen) return;
      cpu_pause();
    }
  } while (now_ns() < deadline);
  awake_.fetch_sub(1, std::memory_order_relaxed);
  generation_.wait(seen, std::memory_order_acquire);
  awake_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace kernelcore
