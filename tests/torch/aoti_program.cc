// A program without Python: runs a package of AOTInductor on the numbers 0/n ... (n-1)/n.
// Usage: program LIBRARY_OF_OPERATORS PACKAGE N; prints the bits of the results.
#include <ATen/ATen.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int, char** argv) {
  if (dlopen(argv[1], RTLD_NOW) == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  int64_t n = std::atoll(argv[3]);
  torch::inductor::AOTIModelPackageLoader loader(argv[2]);
  at::Tensor x = at::arange(n, at::TensorOptions().dtype(at::kDouble)).div(n);
  for (const at::Tensor& result : loader.run({x})) {
    for (int64_t i = 0; i < result.numel(); ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, result.data_ptr<double>() + i, sizeof bits);
      std::printf("%016lx\n", static_cast<unsigned long>(bits));
    }
  }
}
