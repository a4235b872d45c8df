// The kernels of the suite as CUDA C++: grid-stride loops over packed arrays.

// NVRTC, which compiles this too, has no headers.
using int64 = long long;

#define POINTS(i, count)                                                             \
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < int64(count); \
       i += int64(gridDim.x) * blockDim.x)

struct vec3 {
  float x, y, z;
};

__device__ float dot(vec3 a, vec3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ vec3 operator-(vec3 a, vec3 b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }

extern "C" {

__global__ void saxpy(float a, const float* x, const float* y, float* z, int64 n) {
  POINTS(i, n) z[i] = a * x[i] + y[i];
}

__global__ void sin_exp(const float* x, float* z, int64 n) {
  POINTS(i, n) {
    float v = x[i];
    z[i] = sinf(v) * expf(-v * v);
  }
}

__global__ void mix(const float* x, const float* y, float* z, int64 n) {
  POINTS(i, n) {
    float v = x[i];
    float wave = sinf(v) * expf(-v * v);
    z[i] = wave + powf(fabsf(v) + 0.5f, y[i]) + logf(1.0f + v * v) * tanhf(v);
  }
}

__global__ void vec3_dot(const vec3* x, const vec3* y, float* z, int64 n) {
  POINTS(i, n) z[i] = dot(x[i], y[i]);
}

__global__ void vec3_normalise(const vec3* x, vec3* z, int64 n) {
  POINTS(i, n) {
    vec3 v = x[i];
    float length = sqrtf(dot(v, v));
    z[i] = length > 0.0f ? vec3{v.x / length, v.y / length, v.z / length} : vec3{0, 0, 0};
  }
}

__global__ void matmul(const float* a, const float* b, float* c, int64 rows, int64 columns,
                       int depth) {
  POINTS(p, rows * columns) {
    int64 i = p / columns, j = p % columns;
    float total = 0.0f;
    for (int k = 0; k < depth; ++k) total += a[i * depth + k] * b[k * columns + j];
    c[p] = total;
  }
}

__global__ void mandelbrot(int height, int width, int turns, int* out, int64 rows,
                           int64 columns) {
  POINTS(p, rows * columns) {
    int i = int(p / columns), j = int(p % columns);
    float cx = float(j) * (3.0f / float(width)) - 2.0f;
    float cy = float(i) * (2.0f / float(height)) - 1.0f;
    float x = 0.0f, y = 0.0f;
    int n = 0;
    while (x * x + y * y <= 4.0f && n < turns) {
      float t = x * x - y * y + cx;
      y = 2.0f * x * y + cy;
      x = t;
      ++n;
    }
    out[p] = n;
  }
}

__global__ void newton(const float* x, float* root, int64 n) {
  POINTS(i, n) {
    float a = x[i], r = 1.0f;
    int turns = 0;
    while (fabsf(r * r * r - a) > 1.0e-5f * a && turns < 50) {
      r = r - (r * r * r - a) / (3.0f * r * r);
      ++turns;
    }
    root[i] = r;
  }
}

__global__ void nbody(const vec3* x, const float* mass, float eps, vec3* f, int64 n) {
  POINTS(i, n) {
    vec3 here = x[i], total = {0.0f, 0.0f, 0.0f};
    for (int j = 0; j < int(n); ++j) {
      vec3 d = x[j] - here;
      float inv = 1.0f / sqrtf(dot(d, d) + eps);
      float w = mass[j] * inv * inv * inv;
      total.x += d.x * w;
      total.y += d.y * w;
      total.z += d.z * w;
    }
    f[i] = total;
  }
}

__global__ void sph(const vec3* x, const int* start, const int* neighbour, float h, float* rho,
                    int64 n) {
  POINTS(i, n) {
    vec3 here = x[i];
    float total = 0.0f;
    for (int k = start[i]; k < start[i + 1]; ++k) {
      vec3 d = x[neighbour[k]] - here;
      float near = h * h - dot(d, d);
      if (near > 0.0f) total += near * near * near;
    }
    rho[i] = total;
  }
}

// The sum of a block in its first thread, for any number of threads.
__device__ float total_of_warp(float value, int lanes) {
  int lane = threadIdx.x % 32;
  for (int distance = 16; distance > 0; distance /= 2) {
    float other = __shfl_down_sync(0xffffffffu >> (32 - lanes), value, distance);
    value += lane + distance < lanes ? other : 0.0f;
  }
  return value;
}

__global__ void total(const float* x, float* out, int64 n) {
  __shared__ float of_warps[32];
  float own = 0.0f;
  POINTS(i, n) own += x[i];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int lanes = min(blockDim.x - 32 * warp, 32u), warps = (blockDim.x + 31) / 32;
  own = total_of_warp(own, lanes);
  if (lane == 0) of_warps[warp] = own;
  __syncthreads();
  if (warp == 0) own = total_of_warp(lane < warps ? of_warps[lane] : 0.0f, lanes);
  if (threadIdx.x == 0) atomicAdd(out, own);
}

__global__ void histogram(const float* x, int* out, int64 n) {
  POINTS(i, n) atomicAdd(out + int(x[i] * 256.0f), 1);
}

__global__ void stencil(const float* u, float k, float* v, int64 rows, int64 columns) {
  POINTS(p, rows * columns) {
    int64 i = p / columns, j = p % columns;
    float here = u[p];
    if (i > 0 && i < rows - 1 && j > 0 && j < columns - 1) {
      float around = u[p - columns] + u[p + columns] + u[p - 1] + u[p + 1];
      v[p] = here + k * (around - 4.0f * here);
    } else {
      v[p] = here;
    }
  }
}
}
