// What exported operators share: tensors of libtorch's stable C interface, and their launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct AtenTensorOpaque;
using TensorHandle = AtenTensorOpaque*;
using Slot = uint64_t;

extern "C" {
int32_t aoti_torch_get_data_ptr(TensorHandle, void**);
int32_t aoti_torch_get_dim(TensorHandle, int64_t*);
int32_t aoti_torch_get_sizes(TensorHandle, int64_t**);
int32_t aoti_torch_get_strides(TensorHandle, int64_t**);
int32_t aoti_torch_get_dtype(TensorHandle, int32_t*);
int32_t aoti_torch_get_device_type(TensorHandle, int32_t*);
int32_t aoti_torch_device_type_cpu();
int32_t aoti_torch_dtype_bool();
int32_t aoti_torch_dtype_int8();
int32_t aoti_torch_dtype_int16();
int32_t aoti_torch_dtype_int32();
int32_t aoti_torch_dtype_int64();
int32_t aoti_torch_dtype_uint8();
int32_t aoti_torch_dtype_uint16();
int32_t aoti_torch_dtype_uint32();
int32_t aoti_torch_dtype_uint64();
int32_t aoti_torch_dtype_float16();
int32_t aoti_torch_dtype_bfloat16();
int32_t aoti_torch_dtype_float32();
int32_t aoti_torch_dtype_float64();
int32_t aoti_torch_empty_strided(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t,
                                 TensorHandle*);
int32_t aoti_torch_delete_tensor_object(TensorHandle);
int32_t aoti_torch_library_init_fragment(const char*, const char*, uint32_t, void**);
int32_t aoti_torch_library_init_impl(const char*, const char*, const char*, uint32_t, void**);
int32_t aoti_torch_library_def(void*, const char*);
int32_t aoti_torch_library_impl(void*, const char*, void (*)(Slot*, uint64_t, uint64_t));
}

namespace {

constexpr int kMaxDims = 14;
constexpr int64_t kFirstAssertion = 16;
// Words of the status: itself, and what a check tells of its failure.
constexpr int kStatusWords = 1 + 8 + kMaxDims + 2;
// The message of a check starts with its kind, and has places for what only the launch knows.
constexpr char kIndexCheck = '\1';
constexpr char kFiniteCheck = '\2';
constexpr char kIntegerPlace = '\3';
constexpr char kFloatPlace = '\4';

// As kernels read it; the generated code checks where it ends.
struct Grid {
  int64_t dims[8];
  int64_t* status;
  uint64_t shared = 0;  // no other thread adds to results of a launch
  void* log = nullptr;
  uint64_t own = 0;  // calls divide no elements
};

struct View {
  char* data = nullptr;
  int ndim = 0;
  int64_t item = 0;
  int64_t shape[kMaxDims] = {};
  int64_t stride[kMaxDims] = {};  // in bytes

  int64_t numel() const {
    int64_t count = 1;
    for (int k = 0; k < ndim; ++k) count *= shape[k];
    return count;
  }
  void set_shape(const std::vector<int64_t>& extents, int64_t item_bytes) {
    ndim = static_cast<int>(extents.size());
    item = item_bytes;
    int64_t step = item_bytes;
    for (int k = ndim - 1; k >= 0; --k) {
      shape[k] = extents[static_cast<size_t>(k)];
      stride[k] = step;
      step *= shape[k];
    }
  }
};

struct Delete {
  void operator()(AtenTensorOpaque* tensor) const { aoti_torch_delete_tensor_object(tensor); }
};
using Tensor = std::unique_ptr<AtenTensorOpaque, Delete>;

[[noreturn]] void fail(const std::string& text) {
  throw std::runtime_error(text);
}

View read(TensorHandle tensor, int ndim, int32_t dtype, int64_t item, const char* expected) {
  View view;
  int64_t dims = 0;
  int64_t* sizes = nullptr;
  int64_t* strides = nullptr;
  int32_t found = 0;
  int32_t device = 0;
  void* data = nullptr;
  bool is_dense =
      aoti_torch_get_dim(tensor, &dims) == 0 && aoti_torch_get_dtype(tensor, &found) == 0 &&
      aoti_torch_get_device_type(tensor, &device) == 0 &&
      aoti_torch_get_sizes(tensor, &sizes) == 0 && aoti_torch_get_strides(tensor, &strides) == 0 &&
      aoti_torch_get_data_ptr(tensor, &data) == 0;
  if (!is_dense || dims != ndim || found != dtype || device != aoti_torch_device_type_cpu()) {
    fail(std::string(expected) + ", found another tensor");
  }
  // Compiled code assumes it.
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(item) != 0) {
    fail(std::string(expected) +
         " aligned to its elements, found a Tensor at other addresses, such as a view into packed "
         "records or bytes");
  }
  view.data = static_cast<char*>(data);
  view.ndim = ndim;
  view.item = item;
  for (int k = 0; k < ndim; ++k) {
    if (sizes[k] >= int64_t{1} << 31) fail(std::string(expected) + ": an extent is above 2**31");
    view.shape[k] = sizes[k];
    view.stride[k] = strides[k] * item;
  }
  return view;
}

Tensor allocate(View& view, int32_t dtype) {
  int64_t strides[kMaxDims] = {};
  for (int k = 0; k < view.ndim; ++k) strides[k] = view.stride[k] / view.item;
  TensorHandle tensor = nullptr;
  if (aoti_torch_empty_strided(view.ndim, view.shape, strides, dtype, aoti_torch_device_type_cpu(),
                               0, &tensor) != 0) {
    fail("no memory for a result");
  }
  void* data = nullptr;
  aoti_torch_get_data_ptr(tensor, &data);
  view.data = static_cast<char*>(data);
  return Tensor(tensor);
}

void clear(const View& view) {
  if (view.numel() > 0) std::memset(view.data, 0, static_cast<size_t>(view.numel() * view.item));
}

void copy(const View& source, const View& target, int axis, const char* from, char* to) {
  if (axis == target.ndim) {
    std::memcpy(to, from, static_cast<size_t>(target.item));
    return;
  }
  for (int64_t i = 0; i < target.shape[axis]; ++i) {
    copy(source, target, axis + 1, from + i * source.stride[axis], to + i * target.stride[axis]);
  }
}

void require(bool holds, const char* text) {
  if (!holds) fail(text);
}

/// `value`, which is an extent of a shape.
int64_t extent(int64_t value) {
  require(value >= 0 && value < (int64_t{1} << 31), "a shape: a number is no extent");
  return value;
}

/// Whether `extent` reaches over an axis of the grid, which may be empty.
bool fits(int64_t extent, size_t axis, const std::vector<int64_t>& grid) {
  for (int64_t n : grid) {
    if (n == 0) return true;
  }
  return extent >= grid[axis];
}

template <class Integer>
bool holds(int64_t number) {
  // Numbers of torch's schemas have 64 bits with a sign.
  return static_cast<int64_t>(static_cast<Integer>(number)) == number &&
         (number >= 0 || static_cast<Integer>(-1) < Integer{});
}

void put(char* field, const View& view) {
  auto bytes = sizeof(int64_t) * static_cast<size_t>(view.ndim);
  std::memcpy(field, &view.data, sizeof view.data);
  std::memcpy(field + 8, view.shape, bytes);
  std::memcpy(field + 8 + bytes, view.stride, bytes);
}

std::string float_text(int64_t word) {
  double value = 0;
  std::memcpy(&value, &word, sizeof value);
  if (value != value) return "nan";
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

/// `message` with `words` at the places for them.
std::string filled(const char* message, const int64_t* words) {
  if (message[0] != kIndexCheck && message[0] != kFiniteCheck) return message;
  std::string text;
  for (const char* at = message + 1; *at != 0; ++at) {
    if (*at == kIntegerPlace) {
      text += std::to_string(*words++);
    } else if (*at == kFloatPlace) {
      text += float_text(*words++);
    } else {
      text += *at;
    }
  }
  return text;
}

/// Sets rounding to nearest and no traps, and what becomes of denormals; restores the thread's mode
/// at the end.
class FloatMode {
 public:
  explicit FloatMode(bool flush_denormals) : saved_(mode()) {
    set_mode(kStandard | (flush_denormals ? kFlush : 0));
  }
  ~FloatMode() { set_mode(saved_); }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr uint64_t kStandard = 0x1f80;  // exceptions are masked
  static constexpr uint64_t kFlush = 0x8040;     // results and operands
  static uint64_t mode() { return __builtin_ia32_stmxcsr(); }
  static void set_mode(uint64_t mode) { __builtin_ia32_ldmxcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
  static constexpr uint64_t kStandard = 0;
  static constexpr uint64_t kFlush = uint64_t{1} << 24;
  static uint64_t mode() {
    uint64_t found = 0;
    asm volatile("mrs %0, fpcr" : "=r"(found));
    return found;
  }
  static void set_mode(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
  static constexpr uint64_t kStandard = 0;
  static constexpr uint64_t kFlush = 0;
  static uint64_t mode() { return 0; }
  static void set_mode(uint64_t) {}
#endif

  const uint64_t saved_;
};

using Kernel = void(const void*, const Grid*, int64_t, int64_t);

void launch(Kernel* kernel, const void* block, const std::vector<int64_t>& grid,
            bool flush_denormals, const std::vector<const char*>& messages) {
  int64_t status[kStatusWords] = {};
  Grid dims{{1, 1, 1, 1, 1, 1, 1, 1}, status};
  int64_t total = 1;
  for (size_t k = 0; k < grid.size(); ++k) total *= dims.dims[k] = grid[k];
  if (total > 0) {
    FloatMode mode(flush_denormals);
    kernel(block, &dims, 0, total);
  }
  if (status[0] == 0) return;
  auto index = static_cast<size_t>(status[0] - kFirstAssertion);
  if (status[0] < kFirstAssertion || index >= messages.size()) {
    fail("the launch ran out of memory");
  }
  fail(filled(messages[index], status + 1));
}

void define(const char* ns, const char* schema) {
  void* library = nullptr;
  aoti_torch_library_init_fragment(ns, __FILE__, 0, &library);
  if (aoti_torch_library_def(library, schema) != 0) fail(std::string("cannot define ") + schema);
}

void implement(const char* ns, const char* name, const char* key,
               void (*run)(Slot*, uint64_t, uint64_t)) {
  void* library = nullptr;
  aoti_torch_library_init_impl(ns, key, __FILE__, 0, &library);
  if (aoti_torch_library_impl(library, name, run) != 0) {
    fail(std::string("cannot implement ") + name);
  }
}

}  // namespace
