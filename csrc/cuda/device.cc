#include "cuda/device.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "cuda/capture.h"

namespace kernelcore::cuda {
namespace {

constexpr int kAttributeProcessors = 16;
constexpr int kAttributeThreadsOfProcessor = 39;
constexpr int kAttributeComputeMajor = 75;
constexpr int kAttributeComputeMinor = 76;
constexpr int kAttributeMemoryPools = 115;
constexpr int kPoolReleaseThreshold = 4;
constexpr int kLimitHeap = 2;
constexpr size_t kHeapPart = 16;
constexpr size_t kMaxHeapBytes = size_t{1} << 30;
constexpr int kOnDevice = 1;
constexpr int kReadWrite = 3;
constexpr int kPointerOrdinal = 9;
constexpr int kFunctionMaxThreads = 0;
constexpr int kJitInfoLog = 3;
constexpr int kJitInfoLogBytes = 4;
constexpr int kJitErrorLog = 5;
constexpr int kJitErrorLogBytes = 6;
constexpr unsigned kPortableMapped = 1U | 2U;
// A page of status words.
constexpr size_t kWordsPerPage = 512;

struct Devices {
  std::mutex mutex;
  std::vector<Device*> known;
};

Devices& devices() {
  static auto* instance = new Devices();
  return *instance;
}

[[noreturn]] void refuse_image(const DriverTable& driver, const std::string& symbol, Result result,
                               const std::string& log) {
  const char* text = nullptr;
  static_cast<void>(driver.error_string(result, &text));
  throw Error(ErrorKind::kDevice, "the driver refuses the code of '" + symbol +
                                      "': " + (text == nullptr ? std::to_string(result) : text) +
                                      (log.empty() ? "" : "\n") + log +
                                      "\n  help: a newer driver knows newer PTX");
}

void raise_status(const Device& device, const StatusWords& words,
                  const LaunchDescriptor& descriptor) {
  auto* status = reinterpret_cast<volatile int64_t*>(words.host);
  if (status[0] == 0) return;
  // A running kernel may still write the other words.
  Result result = device.wait(Wait::kBesideCaptures);
  int64_t found[kStatusWords];
  for (int k = 0; k < kStatusWords; ++k) found[k] = status[k];
  for (int k = kStatusWords - 1; k >= 0; --k) status[k] = 0;
  Error failure = descriptor.run_error(found);
  if (result == kSuccess) throw failure;
  throw Error(failure.kind(),
              failure.what() + ("\n  note: " + describe(result, "waiting for the device")));
}

void require_device(int ordinal) {
  int count = Device::count();
  if (ordinal >= 0 && ordinal < count) return;
  throw Error(ErrorKind::kDevice, "expected one of " + std::to_string(count) +
                                      " CUDA devices, found cuda:" + std::to_string(ordinal) +
                                      "\n  help: check nvidia-smi and CUDA_VISIBLE_DEVICES");
}

int read_attribute(const DriverTable& driver, DeviceHandle device, int which) {
  int value = 0;
  check(driver.device_attribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

/// Whether failures of both have the same messages.
bool are_alike(const LaunchDescriptor& a, const LaunchDescriptor& b) {
  return a.key == b.key && a.name == b.name && a.where == b.where && a.messages == b.messages;
}

}  // namespace

int Device::count() {
  require_same_process();
  int count = 0;
  check(cuda::driver().device_count(&count), "cuDeviceGetCount");
  return count;
}

int Device::compute_capability(int ordinal) {
  require_device(ordinal);
  const DriverTable& driver = cuda::driver();
  DeviceHandle device = 0;
  check(driver.device_get(&device, ordinal), "cuDeviceGet");
  return 10 * read_attribute(driver, device, kAttributeComputeMajor) +
         read_attribute(driver, device, kAttributeComputeMinor);
}

std::vector<int> Device::known() {
  Devices& all = devices();
  std::lock_guard lock(all.mutex);
  std::vector<int> found;
  for (const Device* device : all.known) {
    if (device != nullptr) found.push_back(device->ordinal());
  }
  return found;
}

Device& Device::get(int ordinal) {
  require_same_process();
  Devices& all = devices();
  std::lock_guard lock(all.mutex);
  auto index = static_cast<size_t>(ordinal);
  if (index < all.known.size() && all.known[index] != nullptr) return *all.known[index];
  require_device(ordinal);
  if (all.known.size() <= index) all.known.resize(index + 1, nullptr);
  all.known[index] = new Device(cuda::driver(), ordinal);
  return *all.known[index];
}

int ordinal_of(const void* address) {
  require_same_process();
  int ordinal = 0;
  Result result = driver().pointer_attribute(&ordinal, kPointerOrdinal,
                                             reinterpret_cast<DevicePointer>(address));
  if (result == kInvalidValue) return -1;
  check(result, "cuPointerGetAttribute");
  return ordinal;
}

void forget_devices() {
  Devices& all = devices();
  std::lock_guard lock(all.mutex);
  for (Device* device : all.known) {
    if (device != nullptr)
      static_cast<void>(device->released().wait_and_free(*device, Wait::kEndsCaptures));
  }
  all.known.clear();
}

Device::Device(const DriverTable& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {
  OutsideCaptures relaxed(driver);
  check(driver_.device_get(&handle_, ordinal), "cuDeviceGet");
  check(driver_.retain_primary(&context_, handle_), "cuDevicePrimaryCtxRetain");
  if (attribute(kAttributeMemoryPools) != 0) pool_ = make_pool();
  resident_threads_ =
      int64_t{attribute(kAttributeProcessors)} * attribute(kAttributeThreadsOfProcessor);
  reserve_heap();
}

void Device::reserve_heap() const {
  // Adjoints allocate their stacks on the device's heap. Its limit is fixed once code that uses the
  // heap has run.
  ScopedContext current(*this);
  size_t total = 0;
  size_t limit = 0;
  check(driver_.total_memory(&total, handle_), "cuDeviceTotalMem");
  check(driver_.limit(&limit, kLimitHeap), "cuCtxGetLimit");
  size_t wanted = std::min(total / kHeapPart, kMaxHeapBytes);
  if (limit < wanted) static_cast<void>(driver_.set_limit(kLimitHeap, wanted));
}

PoolHandle Device::make_pool() const {
  ScopedContext current(*this);
  PoolProperties properties{};
  properties.allocation_type = 1;
  properties.location = {kOnDevice, handle_};
  PoolHandle pool = nullptr;
  Result result = driver_.create_pool(&pool, &properties);
  if (result == kNotSupported) return nullptr;
  check(result, "cuMemPoolCreate");
  // Keep freed memory in the pool across synchronizations, as allocators of frameworks do.
  uint64_t threshold = std::numeric_limits<uint64_t>::max();
  check(driver_.set_pool_attribute(pool, kPoolReleaseThreshold, &threshold),
        "cuMemPoolSetAttribute");
  return pool;
}

void Device::share_pool_with(const Device& other) {
  std::lock_guard lock(mutex_);
  if (pool_ == nullptr || std::ranges::find(sharing_, other.ordinal_) != sharing_.end()) return;
  sharing_.push_back(other.ordinal_);
  int is_possible = 0;
  check(driver_.can_access_peer(&is_possible, other.handle_, handle_), "cuDeviceCanAccessPeer");
  if (is_possible == 0) return;
  PoolAccess access{{kOnDevice, other.handle_}, kReadWrite};
  check(driver_.set_pool_access(pool_, &access, 1), "cuMemPoolSetAccess");
}

int Device::attribute(int which) const {
  return read_attribute(driver_, handle_, which);
}

std::string Device::name() const {
  char text[256] = {};
  check(driver_.device_name(text, sizeof text - 1, handle_), "cuDeviceGetName");
  return text;
}

LoadedFunction Device::load(const std::string& key, const std::string& image,
                            const std::string& symbol) {
  std::lock_guard lock(mutex_);
  std::string id = key + "/" + symbol;
  auto known = functions_.find(id);
  if (known != functions_.end()) return known->second;
  ScopedContext current(*this);
  std::string errors(8192, '\0');
  std::string notes(1, '\0');
  int names[] = {kJitErrorLog, kJitErrorLogBytes, kJitInfoLog, kJitInfoLogBytes};
  void* values[] = {errors.data(), reinterpret_cast<void*>(errors.size()), notes.data(), nullptr};
  ModuleHandle module = nullptr;
  // Never unloaded: launches and graphs refer to it.
  Result result = driver_.load_module(&module, image.c_str(), 4, names, values);
  if (result != kSuccess) refuse_image(driver_, symbol, result, errors.c_str());
  LoadedFunction found{};
  check(driver_.module_function(&found.handle, module, symbol.c_str()), "cuModuleGetFunction");
  check(driver_.function_attribute(&found.max_threads, kFunctionMaxThreads, found.handle),
        "cuFuncGetAttribute");
  functions_.emplace(id, found);
  return found;
}

StatusWords Device::watch(std::shared_ptr<const LaunchDescriptor> descriptor) {
  std::lock_guard lock(mutex_);
  for (const Watch& watch : watches_) {
    if (are_alike(*watch.descriptor, *descriptor)) return watch.words;
  }
  if (words_left_ < kStatusWords) {
    ScopedContext current(*this);
    void* page = nullptr;
    size_t bytes = kWordsPerPage * sizeof(int64_t);
    check(driver_.allocate_host(&page, bytes, kPortableMapped), "cuMemHostAlloc");
    std::fill_n(static_cast<int64_t*>(page), kWordsPerPage, int64_t{0});
    next_words_.host = static_cast<int64_t*>(page);
    check(driver_.host_device_pointer(&next_words_.device, page, 0), "cuMemHostGetDevicePointer");
    words_left_ = kWordsPerPage;
  }
  StatusWords found = next_words_;
  next_words_.host += kStatusWords;
  next_words_.device += kStatusWords * sizeof(int64_t);
  words_left_ -= kStatusWords;
  watches_.push_back({found, std::move(descriptor)});
  return found;
}

void Device::raise_failures() {
  std::lock_guard lock(mutex_);
  for (const Watch& watch : watches_) raise_status(*this, watch.words, *watch.descriptor);
}

void Device::raise_failure(const StatusWords& words, const LaunchDescriptor& descriptor) {
  std::lock_guard lock(mutex_);
  raise_status(*this, words, descriptor);
}

void Device::synchronize() {
  Result result = released_.wait_and_free(*this, Wait::kEndsCaptures);
  raise_failures();
  check(result, "cuCtxSynchronize");
}

Result Device::wait(Wait how) const {
  ScopedContext current(*this);
  OutsideCaptures relaxed(driver_);
  DevicePointer spare = 0;
  // cuMemFree waits for the whole device and leaves captures alone.
  bool has_spare = how == Wait::kBesideCaptures && driver_.allocate(&spare, 1) == kSuccess;
  return has_spare ? driver_.free(spare) : driver_.synchronize_context();
}

ScopedContext::ScopedContext(const Device& device) : driver_(device.driver()) {
  require_same_process();
  ContextHandle current = nullptr;
  check(driver_.current_context(&current), "cuCtxGetCurrent");
  if (current == device.context()) return;
  check(driver_.push_context(device.context()), "cuCtxPushCurrent");
  is_pushed_ = true;
}

ScopedContext::~ScopedContext() {
  ContextHandle popped = nullptr;
  // The driver may be shutting down.
  if (is_pushed_) static_cast<void>(driver_.pop_context(&popped));
}

}  // namespace kernelcore::cuda
