// The memory of one array, to be compared with that of others.
#pragma once

#include <nanobind/nanobind.h>

#include "core/memory/array_view.h"

namespace kernelcore::bind {

/// Where the elements of an array lie; it keeps nothing in place.
struct Span {
  ArrayView view;
  size_t item_bytes;
};

/// Whether two arrays may have an element in common; not where they interleave.
bool overlaps(const Span& first, const Span& second);

nanobind::tuple integers(const int64_t* values, int count);

void bind_span(nanobind::module_& m);

}  // namespace kernelcore::bind
