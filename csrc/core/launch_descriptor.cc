#include "core/launch_descriptor.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

namespace kernelcore {
namespace {

// The messages of checks, as kernelcore.base.errors has them: they start with the kind of the
// check, and have a place for each word that only the launch knows, in the order of the words.
constexpr char kIndexCheck = '\1';
constexpr char kFiniteCheck = '\2';
constexpr char kIntegerPlace = '\3';
constexpr char kFloatPlace = '\4';
constexpr int64_t kIntMax = std::numeric_limits<int32_t>::max();

int checked(int64_t value, int64_t low, int64_t high, const char* what) {
  if (value < low || value > high) {
    throw Error(ErrorKind::kInternal, std::string("malformed kernel description: ") + what + " = " +
                                          std::to_string(value));
  }
  return static_cast<int>(value);
}

Error located(const std::string& problem, const std::string& where, const std::string& help) {
  return Error(ErrorKind::kArgument,
               problem + (where.empty() ? "" : "\n" + where) + "\n  help: " + help);
}

/// The double with the bits `word`, as Python's format 'g' shows it.
std::string float_text(int64_t word) {
  auto value = std::bit_cast<double>(word);
  if (std::isnan(value)) return "nan";
  char text[32];
  return {text, static_cast<size_t>(std::snprintf(text, sizeof text, "%g", value))};
}

/// The message of a check without its kind, with `words` at their places.
std::string filled(const std::string& message, std::span<const int64_t> words) {
  std::string result;
  size_t next = 0;
  for (char c : message.substr(1)) {
    bool is_place = (c == kIntegerPlace || c == kFloatPlace) && next < words.size();
    if (!is_place) {
      result += c;
    } else {
      result += c == kFloatPlace ? float_text(words[next]) : std::to_string(words[next]);
      ++next;
    }
  }
  return result;
}

}  // namespace

void LaunchDescriptor::validate() const {
  auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kInternal, name + "(): malformed kernel description: " + what);
  };
  if (grid_rank < 0 || grid_rank > kMaxGridDims) fail("grid rank");
  if (other_axis < -1 || other_axis >= grid_rank) fail("other axis");
  if (!parameters.empty() && parameters.size() != slots.size()) fail("parameter count");
  for (const auto* axes : {&grid_indexed_axes, &covered_axes}) {
    for (const GridIndexedAxis& indexed : *axes) {
      bool known = indexed.parameter < slots.size() && indexed.axis >= 0 && indexed.grid_axis >= 0;
      if (!known || indexed.axis >= slots[indexed.parameter].ndim ||
          indexed.grid_axis >= kMaxGridDims) {
        fail("grid-indexed axis");
      }
    }
  }
  for (const Accumulated& a : accumulated) {
    bool known = a.parameter < slots.size() && a.axis >= -1 && a.low <= a.high;
    if (!known || a.axis >= slots[a.parameter].ndim || slots[a.parameter].role == Role::kValue) {
      fail("accumulated array");
    }
    if (!a.can_divide()) continue;
    auto loop = static_cast<size_t>(a.loop_parameter);
    if (loop >= slots.size() || a.loop_axis < 0 || a.loop_axis >= slots[loop].ndim) {
      fail("loop of an accumulated array");
    }
  }
  for (size_t parameter : noalias) {
    if (parameter >= slots.size()) fail("noalias parameter");
  }
  for (size_t parameter : stored) {
    if (parameter >= slots.size()) fail("stored parameter");
  }
  for (const ParameterSlot& slot : slots) {
    size_t align = slot.role == Role::kValue ? size_bytes(slot.dtype) : alignof(int64_t);
    if (slot.outer_ndim() < 0 || (slot.components[0] == 0 && slot.components[1] != 0))
      fail("components");
    if (slot.offset % align != 0) fail("misaligned field");
    if (slot.offset > block_template.size() ||
        slot.field_bytes() > block_template.size() - slot.offset) {
      fail("field outside the argument block");
    }
  }
}

bool LaunchDescriptor::runs_along_other_axis(const Grid& grid) const {
  if (other_axis < 0) return false;
  int64_t last = grid.dims[grid_rank - 1];
  return grid.dims[other_axis] > last && (other_axis_points == 0 || last <= other_axis_points);
}

Accumulated LaunchDescriptor::reached(const Accumulated& what, const Grid& grid) const {
  Accumulated found = what;
  // Along an axis in the middle, the first launch index is still that of the slowest loop.
  if (other_axis == 0 && runs_along_other_axis(grid)) {
    found.axis = -1;
    found.low = found.high = 0;
  }
  return found;
}

std::string LaunchDescriptor::parameter_name(size_t index) const {
  return index < parameters.size() ? parameters[index].name : "#" + std::to_string(index);
}

Error LaunchDescriptor::launch_error(const std::string& problem, const std::string& help) const {
  return located(name + "(): " + problem, where, help);
}

Error LaunchDescriptor::argument_error(size_t index, const std::string& problem,
                                       const std::string& help) const {
  std::string declared = index < parameters.size() ? parameters[index].where : where;
  return located(name + "(): argument '" + parameter_name(index) + "': " + problem, declared, help);
}

Error LaunchDescriptor::run_error(std::span<const int64_t, kStatusWords> words) const {
  int64_t status = words[0];
  auto index = static_cast<size_t>(status - kStatusFirstAssertion);
  if (status >= kStatusFirstAssertion && index < messages.size()) {
    const std::string& message = messages[index];
    auto details = words.subspan(1);
    if (message.starts_with(kIndexCheck)) return Error(ErrorKind::kIndex, filled(message, details));
    if (message.starts_with(kFiniteCheck)) {
      return Error(ErrorKind::kFinite, filled(message, details));
    }
    return Error(ErrorKind::kAssertion, message);
  }
  if (status == kStatusOutOfMemory) {
    return Error(ErrorKind::kMemory,
                 name +
                     "(): out of memory for the values that the kernel records in its loops\n"
                     "  help: launch fewer grid points at a time, or run fewer loop iterations");
  }
  if (status == kStatusInterrupted) {
    return Error(ErrorKind::kInterrupted, name + "(): interrupted: its results are incomplete");
  }
  return Error(ErrorKind::kInternal, name + "(): unknown status " + std::to_string(status));
}

void LaunchDescriptor::check_shape(size_t index, const ArrayView& view) const {
  const ParameterSlot& slot = slots[index];
  for (int k = 0; k < view.ndim; ++k) {
    if (view.shape[k] >= kExtentLimit) [[unlikely]] {
      throw argument_error(index,
                           "expected extents below 2**31, found " + std::to_string(view.shape[k]) +
                               " on axis " + std::to_string(k),
                           "split the array: indices of kernels have 32 bits");
    }
  }
  const int64_t* last = view.shape + slot.outer_ndim();
  for (int k = 0; k < slot.component_ndim(); ++k) {
    if (last[k] == slot.components[k]) [[likely]]
      continue;
    throw argument_error(index,
                         "expected " + describe_array(slot) + ", found shape " + shape_text(view),
                         "the last axes of such an array hold the components of an element");
  }
}

namespace {

/// What `parse` makes of each row of `kFields` integers.
template <size_t kFields, class Parse>
auto parse_rows(std::span<const int64_t> flat, const char* what, Parse parse) {
  checked(static_cast<int64_t>(flat.size() % kFields), 0, 0, what);
  std::vector<decltype(parse(flat.data()))> rows;
  for (size_t i = 0; i < flat.size(); i += kFields) rows.push_back(parse(flat.data() + i));
  return rows;
}

}  // namespace

std::vector<ParameterSlot> parse_slots(std::span<const int64_t> flat) {
  return parse_rows<kSlotFields>(flat, "slot length", [](const int64_t* v) {
    return ParameterSlot{
        .offset = static_cast<size_t>(checked(v[0], 0, kIntMax, "offset")),
        .role = static_cast<Role>(checked(v[1], 0, 4, "role")),
        .dtype = static_cast<DType>(checked(v[2], 0, kDTypeCount - 1, "dtype")),
        .ndim = checked(v[3], 0, kMaxArrayDims, "ndim"),
        .zero = static_cast<ZeroFill>(checked(v[4], 0, 2, "zero fill")),
        .operand = checked(v[5], -1, kIntMax, "operand"),
        .result = checked(v[6], -1, kIntMax, "result"),
        .components = {checked(v[7], 0, kIntMax, "components"),
                       checked(v[8], 0, kIntMax, "components")},
    };
  });
}

std::vector<DimRule> parse_dim_rules(std::span<const int64_t> flat) {
  return parse_rows<kDimRuleFields>(flat, "dimension rule length", [](const int64_t* v) {
    int operand = checked(v[0], -1, kIntMax, "rule operand");
    return DimRule{operand, checked(v[1], DimRule::kValue, kMaxArrayDims - 1, "rule axis"), v[2]};
  });
}

std::vector<Accumulated> parse_accumulated(std::span<const int64_t> flat) {
  return parse_rows<kAccumulatedFields>(flat, "accumulated length", [](const int64_t* v) {
    return Accumulated{
        .parameter = static_cast<size_t>(checked(v[0], 0, kIntMax, "accumulated parameter")),
        .axis = checked(v[1], -1, kMaxArrayDims - 1, "accumulated axis"),
        .low = checked(v[2], -kIntMax, kIntMax, "accumulated offset"),
        .high = checked(v[3], -kIntMax, kIntMax, "accumulated offset"),
        .weight = checked(v[4], 0, kIntMax, "accumulated weight"),
        .is_deferrable = (checked(v[5], 0, 3, "accumulated flags") & 1) != 0,
        .is_gathered = (v[5] & 2) != 0,
        .loop_parameter = checked(v[6], -1, kIntMax, "parameter of a loop"),
        .loop_axis = checked(v[7], -1, kMaxArrayDims - 1, "axis of a loop"),
        .own_axis = checked(v[8], -1, kMaxGridDims - 1, "axis of own elements"),
        .least_trips = checked(v[9], 0, kIntMax, "iterations of a loop"),
    };
  });
}

std::vector<GridIndexedAxis> parse_axes(std::span<const int64_t> flat) {
  return parse_rows<3>(flat, "axes length", [](const int64_t* v) {
    return GridIndexedAxis{
        .parameter = static_cast<size_t>(checked(v[0], 0, kIntMax, "parameter of an axis")),
        .axis = checked(v[1], 0, kMaxArrayDims - 1, "axis"),
        .grid_axis = checked(v[2], 0, kMaxGridDims - 1, "axis of the grid"),
    };
  });
}

std::string tuple_text(const int64_t* values, int count) {
  std::string text = "(";
  for (int k = 0; k < count; ++k) text += (k == 0 ? "" : ", ") + std::to_string(values[k]);
  return text + (count == 1 ? ",)" : ")");
}

std::string shape_text(const ArrayView& view) {
  return tuple_text(view.shape, view.ndim);
}

std::string value_text(DType dtype) {
  bool is_signed = traits_of(dtype).kind == ScalarKind::kInt;
  return std::string(is_signed ? "an " : "a ") + name_of(dtype) + " value";
}

std::string describe_array(const ParameterSlot& slot) {
  int count = slot.component_ndim();
  if (count == 0) return "array of " + describe_array(name_of(slot.dtype), slot.ndim);
  std::string components;
  std::string shape;
  for (int k = 0; k < slot.outer_ndim(); ++k) shape += std::string(1, "nmklpqrstuvw"[k]) + ", ";
  for (int k = 0; k < count; ++k) {
    components += (k == 0 ? "" : "x") + std::to_string(slot.components[k]);
    shape += (k == 0 ? "" : ", ") + std::to_string(slot.components[k]);
  }
  if (slot.ndim == 1) shape += ",";
  components += std::string(" ") + name_of(slot.dtype) + " components";
  std::string what =
      slot.outer_ndim() == 0 ? "the " + components + " of a value" : "elements of " + components;
  return "array of " + what + ": shape (" + shape + ")";
}

std::string describe_array(const std::string& dtype, int64_t ndim) {
  return dtype + " with " + std::to_string(ndim) + (ndim == 1 ? " dimension" : " dimensions");
}

}  // namespace kernelcore
