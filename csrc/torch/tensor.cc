#include "torch/tensor.h"

#include <dlfcn.h>

#include <exception>

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

}  // namespace

bool TensorFunctions::find(const void* function) {
  Dl_info info;
  if (dladdr(function, &info) == 0) return false;
  void* library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  // at::toDLPackNonOwning, which has a third parameter in newer versions.
  bool describes =
      bind(library, "_ZN2at17toDLPackNonOwningERKNS_6TensorEP8DLTensor", describe_) ||
      bind(library, "_ZN2at17toDLPackNonOwningERKNS_6TensorEP8DLTensorb", describe_access_);
  // at::native::is_neg and torch::autograd::impl::bump_version.
  return describes && bind(library, "_ZN2at6native6is_negERKNS_6TensorE", is_negated_) &&
         bind(library, "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE", note_written_);
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

bool TensorFunctions::note_written(const at::Tensor& tensor) const {
  return returns([&] { note_written_(tensor); });
}

}  // namespace kernelcore::torch
