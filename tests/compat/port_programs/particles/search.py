"""Searches by structures that only Warp has."""

import warp as wp
from warp import Mesh  # port: missing Mesh
from warp.render import OpenGLRenderer  # port: missing render.OpenGLRenderer


@wp.kernel
def near(grid: wp.uint64, x: wp.array(dtype=wp.vec3), h: float, count: wp.array(dtype=int)):
    i = wp.hash_grid_point_id(grid, wp.tid())  # port: missing hash_grid_point_id
    n = int(0)
    for j in wp.hash_grid_query(grid, x[i], h):  # port: missing hash_grid_query
        if wp.length(x[i] - x[j]) < h:
            n += 1
    count[i] = n


@wp.kernel
def inside(mesh: wp.uint64, x: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    found = wp.mesh_query_point_sign_normal(mesh, x[i], 1.0)  # port: missing mesh_query_point_sign_normal
    out[i] = wp.sign(found.sign) * found.u  # port: differs sign


@wp.kernel
def boxes(tree: wp.uint64, low: wp.array(dtype=wp.vec3), high: wp.array(dtype=wp.vec3), n: wp.array(dtype=int)):
    i = wp.tid()
    query = wp.bvh_query_aabb(tree, low[i], high[i])  # port: missing bvh_query_aabb
    hit = int(0)
    while wp.bvh_query_next(query, hit):  # port: missing bvh_query_next
        wp.atomic_add(n, i, 1)


class Simulation:
    def __init__(self, x, points, indices):
        self.x = wp.array(x, dtype=wp.vec3)
        self.grid = wp.HashGrid(64, 64, 64)  # port: missing HashGrid
        self.mesh = Mesh(  # port: missing Mesh
            points=wp.array(points, dtype=wp.vec3), indices=wp.array(indices, dtype=int)
        )
        self.tree = wp.Bvh(self.x, self.x)  # port: missing Bvh
        self.view = OpenGLRenderer()  # port: missing render.OpenGLRenderer

    def step(self, h: float):
        self.grid.build(self.x, radius=h)
        count = wp.zeros(len(self.x), dtype=int)
        wp.launch(near, dim=len(self.x), inputs=[self.grid.id, self.x, h], outputs=[count])
        return count.numpy()
