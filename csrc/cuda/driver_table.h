// Functions of NVIDIA's driver, which is opened when a CUDA device is first asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kernelcore::cuda {

// As cuda.h declares them; that header is no part of a driver.
using Result = int;
using DeviceHandle = int;
using DevicePointer = unsigned long long;
using ContextHandle = struct ContextOpaque*;
using ModuleHandle = struct ModuleOpaque*;
using FunctionHandle = struct FunctionOpaque*;
using StreamHandle = struct StreamOpaque*;
using EventHandle = struct EventOpaque*;
using PoolHandle = struct PoolOpaque*;
using GraphHandle = struct GraphOpaque*;
using GraphExecHandle = struct GraphExecOpaque*;
using GraphNodeHandle = struct GraphNodeOpaque*;
using UserObjectHandle = struct UserObjectOpaque*;
using ConditionHandle = unsigned long long;

inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotInitialized = 3;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kNotReady = 600;
inline constexpr Result kNotSupported = 801;
inline constexpr Result kCaptureImplicit = 906;

/// The legacy default stream, which synchronizes with all blocking streams of its context.
inline const StreamHandle kLegacyStream = reinterpret_cast<StreamHandle>(uintptr_t{1});
/// The default stream of the calling thread.
inline const StreamHandle kPerThreadStream = reinterpret_cast<StreamHandle>(uintptr_t{2});

/// The location of memory.
struct MemoryLocation {
  int type;  // 1: a device
  int id;
};
/// Access rights to the memory of a pool.
struct PoolAccess {
  MemoryLocation location;
  int flags;  // 3: to read and write
};
static_assert(sizeof(PoolAccess) == 12);
struct PoolProperties {
  int allocation_type;  // 1: pinned, which is the only one
  int handle_types;
  MemoryLocation location;
  void* security_attributes;
  size_t max_bytes;
  unsigned char reserved[56];
};
static_assert(sizeof(PoolProperties) == 88);

/// Of the host or of a device: the driver looks at the address.
inline constexpr int kAnyMemory = 4;

/// One side of a copy of rows.
struct CopySide {
  size_t x_bytes;
  size_t y;
  int memory_type;
  const void* host;
  DevicePointer device;
  void* array;
  size_t pitch_bytes;
};
struct CopyRows {
  CopySide source;
  CopySide target;
  size_t width_bytes;
  size_t height;
};
static_assert(sizeof(CopyRows) == 128);

/// Parameters of a node of a graph that runs other graphs as long as a condition holds.
struct ConditionalNode {
  int node_type = 13;
  int reserved[3] = {};
  ConditionHandle condition = 0;
  int kind = 0;  // 0: if, 1: while
  unsigned size = 1;
  GraphHandle* bodies = nullptr;  // out
  ContextHandle context = nullptr;
  long long rest[26] = {};
};
static_assert(sizeof(ConditionalNode) == 256);

struct GraphUpdateInfo {
  int result;
  GraphNodeHandle error_node;
  GraphNodeHandle error_from_node;
};

// X(name, symbol, parameters). The suffix of a symbol fixes its binary interface. All drivers from
// CUDA 11.4 on have these.
#define KC_DRIVER_FUNCTIONS(X)                                                                   \
  X(init, cuInit, (unsigned flags))                                                              \
  X(error_name, cuGetErrorName, (Result, const char**))                                          \
  X(error_string, cuGetErrorString, (Result, const char**))                                      \
  X(device_count, cuDeviceGetCount, (int*))                                                      \
  X(device_get, cuDeviceGet, (DeviceHandle*, int ordinal))                                       \
  X(device_name, cuDeviceGetName, (char*, int size, DeviceHandle))                               \
  X(device_attribute, cuDeviceGetAttribute, (int*, int attribute, DeviceHandle))                 \
  X(can_access_peer, cuDeviceCanAccessPeer, (int*, DeviceHandle, DeviceHandle peer))             \
  X(pointer_attribute, cuPointerGetAttribute, (void* value, int attribute, DevicePointer))       \
  X(retain_primary, cuDevicePrimaryCtxRetain, (ContextHandle*, DeviceHandle))                    \
  X(current_context, cuCtxGetCurrent, (ContextHandle*))                                          \
  X(push_context, cuCtxPushCurrent_v2, (ContextHandle))                                          \
  X(pop_context, cuCtxPopCurrent_v2, (ContextHandle*))                                           \
  X(synchronize_context, cuCtxSynchronize, ())                                                   \
  X(limit, cuCtxGetLimit, (size_t*, int limit))                                                  \
  X(set_limit, cuCtxSetLimit, (int limit, size_t))                                               \
  X(total_memory, cuDeviceTotalMem_v2, (size_t* bytes, DeviceHandle))                            \
  X(stream_priorities, cuCtxGetStreamPriorityRange, (int* least, int* greatest))                 \
  X(load_module, cuModuleLoadDataEx,                                                             \
    (ModuleHandle*, const void* image, unsigned options, int* names, void** values))             \
  X(module_function, cuModuleGetFunction, (FunctionHandle*, ModuleHandle, const char* name))     \
  X(function_attribute, cuFuncGetAttribute, (int*, int attribute, FunctionHandle))               \
  X(launch_kernel, cuLaunchKernel,                                                               \
    (FunctionHandle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,        \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamHandle, void** parameters, \
     void** extra))                                                                              \
  X(create_stream, cuStreamCreateWithPriority, (StreamHandle*, unsigned flags, int priority))    \
  X(destroy_stream, cuStreamDestroy_v2, (StreamHandle))                                          \
  X(synchronize_stream, cuStreamSynchronize, (StreamHandle))                                     \
  X(query_stream, cuStreamQuery, (StreamHandle))                                                 \
  X(stream_wait, cuStreamWaitEvent, (StreamHandle, EventHandle, unsigned flags))                 \
  X(create_event, cuEventCreate, (EventHandle*, unsigned flags))                                 \
  X(destroy_event, cuEventDestroy_v2, (EventHandle))                                             \
  X(record_event, cuEventRecord, (EventHandle, StreamHandle))                                    \
  X(synchronize_event, cuEventSynchronize, (EventHandle))                                        \
  X(query_event, cuEventQuery, (EventHandle))                                                    \
  X(elapsed_time, cuEventElapsedTime, (float* ms, EventHandle start, EventHandle end))           \
  X(create_pool, cuMemPoolCreate, (PoolHandle*, const PoolProperties*))                          \
  X(trim_pool, cuMemPoolTrimTo, (PoolHandle, size_t bytes_to_keep))                              \
  X(set_pool_access, cuMemPoolSetAccess, (PoolHandle, const PoolAccess*, size_t count))          \
  X(set_pool_attribute, cuMemPoolSetAttribute, (PoolHandle, int attribute, void* value))         \
  X(allocate_from_pool, cuMemAllocFromPoolAsync,                                                 \
    (DevicePointer*, size_t bytes, PoolHandle, StreamHandle))                                    \
  X(free_async, cuMemFreeAsync, (DevicePointer, StreamHandle))                                   \
  X(allocate, cuMemAlloc_v2, (DevicePointer*, size_t bytes))                                     \
  X(free, cuMemFree_v2, (DevicePointer))                                                         \
  X(allocate_host, cuMemHostAlloc, (void**, size_t bytes, unsigned flags))                       \
  X(free_host, cuMemFreeHost, (void*))                                                           \
  X(host_device_pointer, cuMemHostGetDevicePointer_v2, (DevicePointer*, void*, unsigned flags))  \
  X(copy, cuMemcpyAsync, (DevicePointer, DevicePointer, size_t bytes, StreamHandle))             \
  X(copy_to_peer, cuMemcpyPeerAsync,                                                             \
    (DevicePointer, ContextHandle, DevicePointer, ContextHandle, size_t bytes, StreamHandle))    \
  X(copy_rows, cuMemcpy2DAsync_v2, (const CopyRows*, StreamHandle))                              \
  X(fill_bytes, cuMemsetD8Async, (DevicePointer, unsigned char, size_t count, StreamHandle))     \
  X(fill_words, cuMemsetD32Async, (DevicePointer, unsigned, size_t count, StreamHandle))         \
  X(begin_capture, cuStreamBeginCapture_v2, (StreamHandle, int mode))                            \
  X(end_capture, cuStreamEndCapture, (StreamHandle, GraphHandle*))                               \
  X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (int* mode))                       \
  X(is_capturing, cuStreamIsCapturing, (StreamHandle, int* status))                              \
  X(capture_info, cuStreamGetCaptureInfo_v2,                                                     \
    (StreamHandle, int* status, unsigned long long* id, GraphHandle*,                            \
     const GraphNodeHandle** dependencies, size_t* count))                                       \
  X(create_user_object, cuUserObjectCreate,                                                      \
    (UserObjectHandle*, void* object, void (*destroy)(void*), unsigned count, unsigned flags))   \
  X(release_user_object, cuUserObjectRelease, (UserObjectHandle, unsigned count))                \
  X(retain_user_object, cuGraphRetainUserObject,                                                 \
    (GraphHandle, UserObjectHandle, unsigned count, unsigned flags))                             \
  X(instantiate, cuGraphInstantiateWithFlags,                                                    \
    (GraphExecHandle*, GraphHandle, unsigned long long flags))                                   \
  X(launch_graph, cuGraphLaunch, (GraphExecHandle, StreamHandle))                                \
  X(destroy_graph, cuGraphDestroy, (GraphHandle))                                                \
  X(destroy_exec, cuGraphExecDestroy, (GraphExecHandle))

// Functions that older drivers lack; null there.
#define KC_NEWER_DRIVER_FUNCTIONS(X)                                                     \
  X(update_exec, cuGraphExecUpdate_v2, (GraphExecHandle, GraphHandle, GraphUpdateInfo*)) \
  X(update_capture, cuStreamUpdateCaptureDependencies,                                   \
    (StreamHandle, GraphNodeHandle*, size_t count, unsigned flags))                      \
  X(capture_to_graph, cuStreamBeginCaptureToGraph,                                       \
    (StreamHandle, GraphHandle, const GraphNodeHandle*, const void* edges, size_t count, \
     int mode))                                                                          \
  X(create_condition, cuGraphConditionalHandleCreate,                                    \
    (ConditionHandle*, GraphHandle, ContextHandle, unsigned initial, unsigned flags))    \
  X(add_node, cuGraphAddNode,                                                            \
    (GraphNodeHandle*, GraphHandle, const GraphNodeHandle*, size_t count, ConditionalNode*))

/// The driver of this process; entries are null until it is opened.
struct DriverTable {
#define KC_ENTRY(name, symbol, parameters) Result(*name) parameters = nullptr;
  KC_DRIVER_FUNCTIONS(KC_ENTRY)
  KC_NEWER_DRIVER_FUNCTIONS(KC_ENTRY)
#undef KC_ENTRY
};

/// The driver's functions; opens and initializes it at the first call. Throws a device Error where
/// there is none, or one that is too old.
const DriverTable& driver();

/// Throws a device Error in a child that was forked after the driver was opened.
void require_same_process();

/// Whether `driver` has opened the library; before that nothing has used CUDA.
bool is_driver_open();

/// Whether this is a child that was forked after the driver was opened: it must not be called.
bool is_forked();

/// Opens another library than the system's from now on; for tests, while no device is in use.
void set_driver_library(const std::string& path);

/// The driver's text for the `result` of a call of `what`.
std::string describe(Result result, const char* what);

/// Throws an Error that names `what` unless `result` is success.
void check(Result result, const char* what);

}  // namespace kernelcore::cuda
