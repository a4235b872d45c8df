"""The kernels of ``bench_models``, in textbook form: row-major arrays, a thread per term."""

# pyright: basic, reportInvalidTypeForm=false

import kernelcore as kc

HIDDEN = 14
State = kc.types.vector(length=HIDDEN, dtype=kc.float64)


@kc.kernel
def mixture_terms(
    alpha: kc.array1d[kc.float64],
    mean: kc.array2d[kc.float64],
    log_scale: kc.array2d[kc.float64],
    lower: kc.array3d[kc.float64],
    x: kc.array2d[kc.float64],
    y: kc.array2d[kc.float64],
):
    """Log density of point i in component k, whose inverse covariance is L' L."""
    i, k = kc.tid()
    square = kc.float64(0.0)
    log_det = kc.float64(0.0)
    for a in range(x.shape[1]):
        r = kc.exp(log_scale[k, a]) * (x[i, a] - mean[k, a])
        for b in range(a):
            r += lower[k, a, b] * (x[i, b] - mean[k, b])
        square += r * r
        log_det += log_scale[k, a]
    y[i, k] = alpha[k] + log_det - kc.float64(0.5) * square


@kc.kernel
def log_sum_exp(x: kc.array2d[kc.float64], y: kc.array1d[kc.float64]):
    i = kc.tid()
    top = x[i, 0]
    for k in range(x.shape[1]):
        top = kc.max(top, x[i, k])
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        total += kc.exp(x[i, k] - top)
    y[i] = top + kc.log(total)


@kc.kernel
def projection(
    camera: kc.array2d[kc.float64],
    point: kc.array2d[kc.float64],
    weight: kc.array1d[kc.float64],
    pixel: kc.array2d[kc.float64],
    y: kc.array2d[kc.float64],
):
    """Weighted error of an observation: rotation, centre, focal length, principal point, radial."""
    i = kc.tid()
    w = kc.vec3d(camera[i, 0], camera[i, 1], camera[i, 2])
    centre = kc.vec3d(camera[i, 3], camera[i, 4], camera[i, 5])
    p = kc.vec3d(point[i, 0], point[i, 1], point[i, 2]) - centre
    square = kc.dot(w, w)
    angle = kc.sqrt(square)
    axis = w / angle
    c = kc.cos(angle)
    s = kc.sin(angle)
    q = p * c + kc.cross(axis, p) * s + axis * (kc.dot(axis, p) * (kc.float64(1.0) - c))
    u = q[0] / q[2]
    v = q[1] / q[2]
    r = u * u + v * v
    radial = kc.float64(1.0) + camera[i, 9] * r + camera[i, 10] * r * r
    y[i, 0] = weight[i] * (camera[i, 6] * u * radial + camera[i, 7] - pixel[i, 0])
    y[i, 1] = weight[i] * (camera[i, 6] * v * radial + camera[i, 8] - pixel[i, 1])


@kc.func
def sigmoid(x: kc.float64) -> kc.float64:
    return kc.float64(1.0) / (kc.float64(1.0) + kc.exp(-x))


@kc.kernel
def lstm(
    weight: kc.array2d[State],
    bias: kc.array2d[State],
    scale: kc.array1d[State],
    first: kc.array2d[State],
    sequence: kc.array1d[State],
    y: kc.array1d[kc.float64],
):
    """Mean log likelihood of a sequence; ``first`` holds hidden states and cells of two layers."""
    hidden0, cell0 = first[0, 0], first[0, 1]
    hidden1, cell1 = first[1, 0], first[1, 1]
    total = kc.float64(0.0)
    for t in range(sequence.shape[0] - 1):
        given, wanted = sequence[t], sequence[t + 1]
        sum_exp = kc.float64(2.0)
        likely = kc.float64(0.0)
        for j in range(HIDDEN):
            x = given[j] * scale[0][j]
            forget = sigmoid(x * weight[0, 0][j] + bias[0, 0][j])
            enter = sigmoid(hidden0[j] * weight[0, 1][j] + bias[0, 1][j])
            leave = sigmoid(x * weight[0, 2][j] + bias[0, 2][j])
            change = kc.tanh(hidden0[j] * weight[0, 3][j] + bias[0, 3][j])
            cell0[j] = cell0[j] * forget + enter * change
            hidden0[j] = leave * kc.tanh(cell0[j])
            x = hidden0[j]
            forget = sigmoid(x * weight[1, 0][j] + bias[1, 0][j])
            enter = sigmoid(hidden1[j] * weight[1, 1][j] + bias[1, 1][j])
            leave = sigmoid(x * weight[1, 2][j] + bias[1, 2][j])
            change = kc.tanh(hidden1[j] * weight[1, 3][j] + bias[1, 3][j])
            cell1[j] = cell1[j] * forget + enter * change
            hidden1[j] = leave * kc.tanh(cell1[j])
            predicted = hidden1[j] * scale[1][j] + scale[2][j]
            sum_exp += kc.exp(predicted)
            likely += wanted[j] * predicted
        normal = kc.log(sum_exp)
        for j in range(HIDDEN):
            likely -= wanted[j] * normal
        total += likely
    y[0] = total / kc.float64(HIDDEN * (sequence.shape[0] - 1))
