"""The kernels of ``bench_models``, in textbook form: row-major arrays, a thread per term."""

# pyright: basic, reportInvalidTypeForm=false

import kernelcore as kc

HIDDEN = 14
State = kc.types.vector(length=HIDDEN, dtype=kc.float64)
Camera = kc.types.vector(length=11, dtype=kc.float64)
# What the error of an observation changes by: with the camera, the point and the weight.
Row = kc.types.vector(length=15, dtype=kc.float64)


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


@kc.func
def projected(camera: Camera, point: kc.vec3d, weight: kc.float64, pixel: kc.vec2d):
    """Weighted error of an observation: rotation, centre, focal length, principal point, radial."""
    w = kc.vec3d(camera[0], camera[1], camera[2])
    p = point - kc.vec3d(camera[3], camera[4], camera[5])
    angle = kc.length(w)
    axis = w / angle
    c = kc.cos(angle)
    s = kc.sin(angle)
    q = p * c + kc.cross(axis, p) * s + axis * (kc.dot(axis, p) * (kc.float64(1.0) - c))
    u = kc.vec2d(q[0], q[1]) / q[2]
    r = kc.dot(u, u)
    radial = kc.float64(1.0) + camera[9] * r + camera[10] * r * r
    return weight * (camera[6] * radial * u + kc.vec2d(camera[7], camera[8]) - pixel)


@kc.kernel
def projection(
    camera: kc.array1d[Camera],
    point: kc.array1d[kc.vec3d],
    weight: kc.array1d[kc.float64],
    pixel: kc.array1d[kc.vec2d],
    y: kc.array1d[kc.vec2d],
):
    i = kc.tid()
    y[i] = projected(camera[i], point[i], weight[i], pixel[i])


@kc.func
def projected_x(camera: Camera, point: kc.vec3d, weight: kc.float64, pixel: kc.vec2d):
    return projected(camera, point, weight, pixel)[0]


@kc.func
def projected_y(camera: Camera, point: kc.vec3d, weight: kc.float64, pixel: kc.vec2d):
    return projected(camera, point, weight, pixel)[1]


@kc.kernel
def projection_with_rows(
    camera: kc.array1d[Camera],
    point: kc.array1d[kc.vec3d],
    weight: kc.array1d[kc.float64],
    pixel: kc.array1d[kc.vec2d],
    y: kc.array1d[kc.vec2d],
    rows: kc.array2d[Row],
):
    """The error, and what it changes by: 11 numbers for the camera, 3 for the point, the weight."""
    i = kc.tid()
    c, p, w, found = camera[i], point[i], weight[i], pixel[i]
    y[i] = projected(c, p, w, found)
    by_camera, by_point, by_weight, _ = kc.grad(projected_x)(c, p, w, found)
    rows[i, 0] = joined(by_camera, by_point, by_weight)
    by_camera, by_point, by_weight, _ = kc.grad(projected_y)(c, p, w, found)
    rows[i, 1] = joined(by_camera, by_point, by_weight)


@kc.func
def joined(by_camera: Camera, by_point: kc.vec3d, by_weight: kc.float64):
    row = Row()
    for k in range(11):
        row[k] = by_camera[k]
    for k in range(3):
        row[11 + k] = by_point[k]
    row[14] = by_weight
    return row


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
