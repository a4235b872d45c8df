// A fixed-size buffer that lives on the stack while it is small.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

namespace kernelcore {

/// `size` uninitialised, 16-aligned elements; no allocation up to `kInline` of them.
template <class T, size_t kInline>
class SmallBuffer {
  static_assert(std::is_trivially_default_constructible_v<T> &&
                std::is_trivially_destructible_v<T>);

 public:
  explicit SmallBuffer(size_t size) {
    if (size > kInline) heap_ = std::make_unique_for_overwrite<T[]>(size);
  }
  SmallBuffer(const SmallBuffer&) = delete;
  SmallBuffer& operator=(const SmallBuffer&) = delete;

  T* data() { return heap_ ? heap_.get() : reinterpret_cast<T*>(inline_); }
  T& operator[](size_t i) { return data()[i]; }

 private:
  std::unique_ptr<T[]> heap_;
  alignas(alignof(std::max_align_t)) std::byte inline_[kInline * sizeof(T)];
};

}  // namespace kernelcore
