#include "xla/plan.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "core/error.h"
#include "core/loader/registry.h"

namespace kernelcore::ffi {
namespace {

[[noreturn]] void fail_attribute(std::string_view name) {
  throw Error(ErrorKind::kInternal,
              "kernelcore: attribute '" + std::string(name) + "' is missing or malformed");
}

/// The attribute, or null if there is none of this name and type.
const void* find_any(const XLA_FFI_Attrs& attributes, std::string_view name,
                     XLA_FFI_AttrType type) {
  for (int64_t i = 0; i < attributes.size; ++i) {
    const XLA_FFI_ByteSpan& found = *attributes.names[i];
    if (std::string_view(found.ptr, found.len) == name && attributes.types[i] == type) {
      return attributes.attrs[i];
    }
  }
  return nullptr;
}

const void* find(const XLA_FFI_Attrs& attributes, std::string_view name, XLA_FFI_AttrType type) {
  const void* found = find_any(attributes, name, type);
  if (found == nullptr) fail_attribute(name);
  return found;
}

std::string read_string(const XLA_FFI_Attrs& attributes, std::string_view name) {
  const auto* span =
      static_cast<const XLA_FFI_ByteSpan*>(find(attributes, name, XLA_FFI_AttrType_STRING));
  return std::string(span->ptr, span->len);
}

template <class T>
std::span<const T> read_array(const XLA_FFI_Attrs& attributes, std::string_view name,
                              XLA_FFI_DataType dtype) {
  const auto* array =
      static_cast<const XLA_FFI_Array*>(find(attributes, name, XLA_FFI_AttrType_ARRAY));
  if (array->size == 0) return {};
  if (array->dtype != dtype) fail_attribute(name);
  return {static_cast<const T*>(array->data), array->size};
}

int64_t read_scalar(const XLA_FFI_Attrs& attributes, std::string_view name) {
  const auto* scalar =
      static_cast<const XLA_FFI_Scalar*>(find(attributes, name, XLA_FFI_AttrType_SCALAR));
  if (scalar->dtype != XLA_FFI_DataType_S64) fail_attribute(name);
  return *static_cast<const int64_t*>(scalar->value);
}

void check_bindings(const PlannedLaunch& planned) {
  for (const ParameterSlot& slot : planned.descriptor.slots) {
    bool needs_operand = slot.role == Role::kInput || slot.role == Role::kInOut;
    if ((needs_operand && slot.operand < 0) || (slot.is_written() && slot.result < 0)) {
      fail_attribute("slots");
    }
  }
}

std::string_view read_bytes(const XLA_FFI_Attrs& attributes, std::string_view name) {
  if (find_any(attributes, name, XLA_FFI_AttrType_ARRAY) == nullptr) return {};
  auto bytes = read_array<char>(attributes, name, XLA_FFI_DataType_U8);
  return {bytes.data(), bytes.size()};
}

/// Texts, each with a zero byte behind it; none where programs of earlier versions lack them.
std::vector<std::string> read_texts(const XLA_FFI_Attrs& attributes, std::string_view name) {
  std::vector<std::string> found;
  std::string_view left = read_bytes(attributes, name);
  for (size_t end; (end = left.find('\0')) != left.npos; left.remove_prefix(end + 1)) {
    found.emplace_back(left.substr(0, end));
  }
  return found;
}

/// Axes of arrays and of the grid, if the program says which.
std::vector<GridIndexedAxis> read_axes(const XLA_FFI_Attrs& attributes, std::string_view name) {
  if (find_any(attributes, name, XLA_FFI_AttrType_ARRAY) == nullptr) return {};
  return parse_axes(read_array<int64_t>(attributes, name, XLA_FFI_DataType_S64));
}

/// The name of the entry of PTX, which tells the kernel; `otherwise` of other images.
std::string entry_of(std::string_view image, const std::string& otherwise) {
  constexpr std::string_view kMark = ".entry ";
  size_t mark = image.find(kMark);
  if (mark == std::string_view::npos) return otherwise;
  size_t first = mark + kMark.size();
  return std::string(image.substr(first, image.find('(', first) - first));
}

/// Finds the code of a launch, whose descriptor is complete otherwise.
void find_code(const XLA_FFI_Attrs& attributes, PlannedLaunch& planned) {
  LaunchDescriptor& descriptor = planned.descriptor;
  bool is_on_device = find_any(attributes, "block_dim", XLA_FFI_AttrType_SCALAR) != nullptr;
  FoundKernel found;
  std::string_view image = read_bytes(attributes, "image");
  if (image.empty()) {
    found = find_kernel(descriptor.key, read_bytes(attributes, "object"));
    if (found.image != nullptr) image = *found.image;
  }
  if (is_on_device ? image.empty() : found.fn == nullptr) {
    std::string problem = found.problem.empty() ? "" : " (" + found.problem + ")";
    throw Error(ErrorKind::kUnknownKernel, "kernelcore: kernel '" + descriptor.name + "' (" +
                                               descriptor.key +
                                               ") is not registered in this process" + problem +
                                               "; import the module that defines it, or export the "
                                               "program with embed_objects=True");
  }
  descriptor.fn = found.fn;
  if (!is_on_device) return;
  planned.block_threads = read_scalar(attributes, "block_dim");
  // A number that only the device knows is an array to the kernel.
  bool has_unknown = std::ranges::any_of(descriptor.slots, [](const ParameterSlot& slot) {
    return slot.role == Role::kValue && slot.operand >= 0;
  });
  if (has_unknown) fail_attribute("slots");
  planned.kernel = std::make_unique<cuda::DeviceKernel>(descriptor, std::string(image),
                                                        entry_of(image, "kc_" + descriptor.key));
}

PlannedLaunch make_planned_launch(const XLA_FFI_Attrs& attributes) {
  PlannedLaunch planned;
  LaunchDescriptor& descriptor = planned.descriptor;
  descriptor.name = read_string(attributes, "name");
  descriptor.key = read_string(attributes, "key");
  auto bytes = read_array<std::byte>(attributes, "template", XLA_FFI_DataType_U8);
  descriptor.block_template.assign(bytes.begin(), bytes.end());
  descriptor.slots = parse_slots(read_array<int64_t>(attributes, "slots", XLA_FFI_DataType_S64));
  descriptor.accumulated =
      parse_accumulated(read_array<int64_t>(attributes, "accumulated", XLA_FFI_DataType_S64));
  descriptor.messages = read_texts(attributes, "messages");
  for (std::string& parameter : read_texts(attributes, "parameters")) {
    descriptor.parameters.push_back({std::move(parameter), ""});
  }
  descriptor.grid_indexed_axes = read_axes(attributes, "indexed");
  descriptor.covered_axes = read_axes(attributes, "covered");
  descriptor.may_block = find_any(attributes, "may_block", XLA_FFI_AttrType_SCALAR) != nullptr;
  descriptor.flush_denormals =
      find_any(attributes, "flush_denormals", XLA_FFI_AttrType_SCALAR) != nullptr;
  if (find_any(attributes, "panel_rows", XLA_FFI_AttrType_SCALAR) != nullptr) {
    descriptor.panel_rows = static_cast<int>(read_scalar(attributes, "panel_rows"));
  }
  if (find_any(attributes, "points_at_once", XLA_FFI_AttrType_SCALAR) != nullptr) {
    descriptor.points_at_once = static_cast<int>(read_scalar(attributes, "points_at_once"));
  }
  if (find_any(attributes, "other_axis", XLA_FFI_AttrType_SCALAR) != nullptr) {
    descriptor.other_axis = static_cast<int>(read_scalar(attributes, "other_axis"));
    descriptor.other_axis_points = read_scalar(attributes, "other_axis_points");
  }
  planned.grid = parse_dim_rules(read_array<int64_t>(attributes, "grid", XLA_FFI_DataType_S64));
  descriptor.grid_rank = static_cast<int>(planned.grid.size());
  descriptor.validate();
  check_bindings(planned);
  find_code(attributes, planned);
  return planned;
}

void list_buffers(Plan& plan) {
  std::vector<bool> seen;
  auto use = [&](int index, size_t launch, size_t parameter) {
    if (index < 0) return;
    auto buffer = static_cast<size_t>(index);
    if (buffer >= seen.size()) seen.resize(buffer + 1);
    if (seen[buffer]) return;
    seen[buffer] = true;
    plan.buffers.push_back({buffer, launch, parameter});
  };
  for (size_t k = 0; k < plan.launches.size(); ++k) {
    const auto& slots = plan.launches[k].descriptor.slots;
    for (size_t i = 0; i < slots.size(); ++i) {
      use(slots[i].operand, k, i);
      if (slots[i].is_written()) use(slots[i].result, k, i);
    }
  }
  plan.buffer_count = seen.size();
}

}  // namespace

Plan make_plan(const XLA_FFI_Attrs& attributes) {
  Plan plan;
  bool has_several = find_any(attributes, "steps", XLA_FFI_AttrType_SCALAR) != nullptr;
  int64_t count = has_several ? read_scalar(attributes, "steps") : 0;
  if (!has_several) plan.launches.push_back(make_planned_launch(attributes));
  for (int64_t k = 0; k < count; ++k) {
    std::string name = "step" + std::to_string(k);
    const void* launch = find(attributes, name, XLA_FFI_AttrType_DICTIONARY);
    plan.launches.push_back(make_planned_launch(*static_cast<const XLA_FFI_Attrs*>(launch)));
  }
  list_buffers(plan);
  return plan;
}

}  // namespace kernelcore::ffi
