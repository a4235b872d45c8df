#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>

#include <cmath>
#include <cstdlib>

#include "bind/bindings.h"
#include "bind/errors.h"
#include "bind/released_gil.h"
#include "core/loader/elf_loader.h"
#include "core/loader/registry.h"
#include "core/run/pool.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

// The Python callable that registers unknown kernels; guarded by the GIL.
PyObject* g_resolver = nullptr;

std::string call_resolver(const std::string& key, std::string_view object) {
  if (Py_IsInitialized() == 0) return {};
  nb::gil_scoped_acquire gil;
  nb::object resolver = nb::borrow(g_resolver);
  if (!resolver.is_valid()) return {};
  try {
    resolver(key, nb::bytes(object.data(), object.size()));
    return {};
  } catch (const nb::python_error& error) {
    return nb::str(error.value()).c_str();
  }
}

void set_python_resolver(nb::object resolver) {
  PyObject* old = g_resolver;
  g_resolver = resolver.is_none() ? nullptr : resolver.release().ptr();
  set_resolver(g_resolver != nullptr ? call_resolver : nullptr);
  Py_XDECREF(old);
}

void bind_threads(nb::module_& m) {
  m.def("set_error_types", &set_error_types, nb::arg("classes"),
        "Set the exception classes that native errors are raised as, by ErrorKind.");
  m.def(
      "num_threads", [] { return Pool::instance().num_threads(); },
      "Threads that a launch may use, the calling one included.\n\n"
      "Initially KC_NUM_THREADS, else the processors that affinity and control groups allow this\n"
      "process. Under JAX launches use the threads of XLA instead.\n\n"
      "Raises:\n    KernelArgumentError: KC_NUM_THREADS is no integer of at least 1.");
  m.def(
      "set_num_threads",
      [](nb::handle count) {
        nb::object number = nb::steal(PyNumber_Index(count.ptr()));
        PyErr_Clear();
        int overflow = 0;
        long long value =
            number.is_valid() ? PyLong_AsLongLongAndOverflow(number.ptr(), &overflow) : 0;
        if (overflow != 0 || value < 1 || value > kMaxThreads) {
          std::string found = nb::cast<std::string>(nb::repr(count));
          throw Error(ErrorKind::kArgument, "set_num_threads(): expected a number from 1 to " +
                                                std::to_string(kMaxThreads) + ", found " + found +
                                                "\n  help: give the number of processors to use");
        }
        ReleasedGil released;
        Pool::instance().set_num_threads(static_cast<int>(value));
      },
      nb::arg("count"), nb::sig("def set_num_threads(count: int) -> None"),
      "Set the number of threads that launches may use, the calling one included.\n\n"
      "No result depends on it. Returns when launches of other threads are over.\n\n"
      "Raises:\n    KernelArgumentError: ``count`` is below 1 or above 1024.");
  m.def("cgroup_cpus", &cgroup_cpus, nb::arg("root") = "",
        "The CPU quota of the process's control groups, in processors; 0: no limit.");
  m.def("set_eager_sharing", &set_eager_sharing, nb::arg("is_eager"),
        "Set whether threads share every run of several chunks, however short.");
}

void bind_registry(nb::module_& m) {
  m.def("count_registered_kernels", &count_kernels, "How many kernels are registered.");
  m.def(
      "register_kernel",
      [](const std::string& key, uintptr_t address) {
        register_kernel(key, reinterpret_cast<KernelFn>(address));
      },
      nb::arg("key"), nb::arg("address"), "Make a compiled kernel known by its content hash.");
  m.def(
      "register_image",
      [](const std::string& key, const nb::bytes& image) {
        register_image(key, {static_cast<const char*>(image.data()), image.size()});
      },
      nb::arg("key"), nb::arg("image"), "Make a kernel's code for devices known by its hash.");
  m.def("set_resolver", &set_python_resolver, nb::arg("resolver").none(),
        nb::sig("def set_resolver("
                "resolver: collections.abc.Callable[[str, bytes], object] | None) -> None"),
        "Set the callable that registers a kernel of unknown hash; it also gets the machine code "
        "that a stored program embeds, or none.");
}

// Whether a multiplication and an addition are one instruction of this processor.
bool has_fma() {
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
  return __builtin_cpu_supports("fma") != 0;
#elif defined(__aarch64__) || defined(_M_ARM64)
  return true;
#else
  return false;
#endif
}

void bind_arithmetic(nb::module_& m) {
  m.attr("has_fma") = has_fma();
  m.def(
      "fma", [](double x, double y, double z) { return std::fma(x, y, z); }, nb::arg("x"),
      nb::arg("y"), nb::arg("z"), "x * y + z in float64, rounded once.");
  m.def(
      "fmaf", [](float x, float y, float z) { return std::fma(x, y, z); }, nb::arg("x"),
      nb::arg("y"), nb::arg("z"), "x * y + z in float32, rounded once.");
}

void bind_loader(nb::module_& m) {
#if defined(__linux__) && defined(__x86_64__)
  m.def(
      "load_object",
      [](const nb::bytes& code, const std::string& symbol) {
        const auto* first = static_cast<const std::byte*>(code.data());
        return load_object({first, code.size()}, symbol);
      },
      nb::arg("code"), nb::arg("symbol"),
      "Load a relocatable object for as long as the process lives; the address of a function in "
      "it.");
#endif
}

}  // namespace
}  // namespace kernelcore::bind

NB_MODULE(_native, m) {
  m.doc() = "Native half of kernelcore: launches, kernel registry, XLA handlers, torch operators.";
  // Frameworks keep registered operators, and objects of this module, until the process ends.
  nanobind::set_leak_warnings(std::getenv("KC_LEAK_WARNINGS") != nullptr);
  kernelcore::bind::register_error_translator();
  kernelcore::bind::init_interrupts();
  kernelcore::bind::bind_arithmetic(m);
  kernelcore::bind::bind_device_objects(m);
  kernelcore::bind::bind_array_memory(m);
  kernelcore::bind::bind_launch(m);
  kernelcore::bind::bind_threads(m);
  kernelcore::bind::bind_bound_names(m);
  kernelcore::bind::bind_launch_entry(m);
  kernelcore::bind::bind_device_launch(m);
  kernelcore::bind::bind_adjoint_memory(m);
  kernelcore::bind::bind_tape_memory(m);
  kernelcore::bind::bind_tape_launch(m);
  kernelcore::bind::bind_loader(m);
  kernelcore::bind::bind_registry(m);
  kernelcore::bind::bind_xla(m);
  kernelcore::bind::bind_operation(m);
  kernelcore::bind::bind_torch(m);
}
