#include "torch/tensor.h"

#include <dlfcn.h>

#include <exception>
#include <new>

namespace kernelcore::torch {
namespace {

template <class Function>
bool bind(void* library, const char* symbol, Function*& target) {
  target = reinterpret_cast<Function*>(dlsym(library, symbol));
  return target != nullptr;
}

/// Whether `function()` returns: what torch throws is an exception of the standard library.
template <class Function>
bool returns(Function&& function) {
  try {
    function();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// The library that has `function`; null where that is not known.
void* library_of(const void* function) {
  Dl_info info;
  bool is_known = dladdr(function, &info) != 0;
  return is_known ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
}

}  // namespace

void* symbol_beside(const void* function, const char* symbol) {
  void* library = library_of(function);
  return library != nullptr ? dlsym(library, symbol) : nullptr;
}

bool TensorFunctions::find(const void* function) {
  void* library = library_of(function);
  if (library == nullptr) return false;
  // at::toDLPackNonOwning, which has a third parameter in newer versions.
  bool describes =
      bind(library, "_ZN2at17toDLPackNonOwningERKNS_6TensorEP8DLTensor", describe_) ||
      bind(library, "_ZN2at17toDLPackNonOwningERKNS_6TensorEP8DLTensorb", describe_access_);
  // c10::TensorImpl::has_storage, at::native::is_neg, at::native::alias and
  // torch::autograd::impl::bump_version.
  return describes && bind(library, "_ZNK3c1010TensorImpl11has_storageEv", has_storage_) &&
         bind(library, "_ZN2at6native6is_negERKNS_6TensorE", is_negated_) &&
         bind(library, "_ZN2at6native5aliasERKNS_6TensorE", alias_) &&
         bind(library, "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE", note_written_) &&
         bind(library, "aoti_torch_delete_tensor_object", delete_) &&
         bind(library, "aoti_torch_get_data_ptr", get_data_ptr_) &&
         bind(library, "aoti_torch_get_storage_size", get_storage_size_) &&
         bind(library, "aoti_torch_get_storage_offset", get_storage_offset_);
}

bool TensorFunctions::describe(const at::Tensor& tensor, DLTensor& out) const {
  return returns([&] {
    if (describe_ != nullptr) {
      describe_(tensor, &out);
    } else {
      describe_access_(tensor, &out, false);
    }
  });
}

std::shared_ptr<const at::Tensor> TensorFunctions::alias(const at::Tensor& tensor) const {
  // torch deletes the tensor, which therefore has to come from `operator new`.
  void* place = ::operator new(sizeof(Returned));
  if (!returns([&] { new (place) Returned(alias_(tensor)); })) {
    ::operator delete(place);
    return nullptr;
  }
  return {static_cast<const at::Tensor*>(place), delete_};
}

TensorFunctions::Memory TensorFunctions::memory_of(const at::Tensor& tensor) const {
  Memory found{};
  bool is_known = get_data_ptr_(&tensor, &found.data) == 0 &&
                  get_storage_size_(&tensor, &found.storage_size_bytes) == 0;
  return is_known ? found : Memory{};
}

bool TensorFunctions::holds_span(const at::Tensor& tensor, const ArrayView& view,
                                 int64_t storage_size_bytes) const {
  auto [begin, end] = view.byte_span();
  auto size_bytes = static_cast<int64_t>(end - begin);
  int64_t offset = 0;
  if (size_bytes == 0 || size_bytes == storage_size_bytes) return true;
  return get_storage_offset_(&tensor, &offset) != 0 ||
         size_bytes <= storage_size_bytes - offset * view.item_bytes;
}

bool TensorFunctions::note_written(const at::Tensor& tensor) const {
  return returns([&] { note_written_(tensor); });
}

}  // namespace kernelcore::torch
