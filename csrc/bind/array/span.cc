#include "bind/array/span.h"

#include "core/memory/aliasing.h"

namespace nb = nanobind;

namespace kernelcore::bind {

bool overlaps(const Span& first, const Span& second) {
  return may_overlap(first.view, first.item_bytes, second.view, second.item_bytes);
}

nb::tuple integers(const int64_t* values, int count) {
  nb::list list;
  for (int k = 0; k < count; ++k) list.append(values[k]);
  return nb::tuple(list);
}

void bind_span(nb::module_& m) {
  nb::class_<Span>(m, "Span", "Where the elements of an array lie, which it does not keep there.")
      .def_prop_ro(
          "begin", [](const Span& self) { return byte_span(self.view, self.item_bytes).first; },
          "The address of the first byte.")
      .def_prop_ro(
          "end", [](const Span& self) { return byte_span(self.view, self.item_bytes).second; },
          "The address past the last byte; `begin` if there is none.")
      .def("overlaps", &overlaps, nb::arg("other"),
           "Whether the two may have an element in common; not where they interleave.");
}

}  // namespace kernelcore::bind
