"""Whether a variable that only some paths set is set on every path that leads to a use of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeGuard

Body = Sequence[ast.stmt]


def is_set(tree: ast.FunctionDef, name: str, use: ast.AST | None) -> bool:
    """Whether ``name`` is known to be set where ``use``, a node of ``tree``, reads it.

    Known are loops that run at least once, a use under the condition under which the name is set,
    and a use under a flag or an index that is set together with the name.
    """
    path = _path(tree, use) if use is not None else None
    if path is None:
        return False
    stores = [body for body in _bodies(tree) if any(_sets(stmt, name) for stmt in body)]
    for above, below in pairwise(path):
        if any(_runs(stmt) and _is_set_by(stmt, name) for stmt in _before(above, below)):
            return True
        if isinstance(above, ast.If) and any(below is stmt for stmt in above.body):
            for test in _parts(above.test):
                if _guards(tree, test, stores) or _marks(tree, test, stores):
                    return True
    return False


def _path(tree: ast.AST, use: ast.AST) -> list[ast.AST] | None:
    """The nodes from ``tree`` down to one at the place of ``use``."""
    place = getattr(use, "lineno", None), getattr(use, "col_offset", None)
    if isinstance(tree, ast.Name) and (tree.lineno, tree.col_offset) == place:
        return [tree]
    for child in ast.iter_child_nodes(tree):
        found = _path(child, use)
        if found is not None:
            return [tree, *found]
    return None


def _bodies(tree: ast.AST) -> Iterator[Body]:
    for node in ast.walk(tree):
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if _is_block(body):
                yield body


def _sets(stmt: ast.stmt, name: str) -> bool:
    """Whether ``stmt`` itself assigns ``name``, wherever it is reached."""
    if isinstance(stmt, ast.Assign | ast.AnnAssign):
        targets = stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target]
        return any(isinstance(n, ast.Name) and n.id == name for t in targets for n in ast.walk(t))
    return False


def _before(above: ast.AST, below: ast.AST) -> Body:
    """The statements that run before ``below`` in the block of ``above`` that has it."""
    for name in ("body", "orelse"):
        body: object = getattr(above, name, None)
        if _is_block(body):
            places = [k for k, stmt in enumerate(body) if stmt is below]
            if places:
                return body[: places[0]]
    return []


def _is_block(found: object) -> TypeGuard[list[ast.stmt]]:
    return isinstance(found, list)


def _is_set_by(loop: ast.stmt, name: str) -> bool:
    """Whether one iteration of ``loop`` sets ``name``."""
    assert isinstance(loop, ast.For)
    if isinstance(loop.target, ast.Name) and loop.target.id == name:
        return True
    leaves = any(isinstance(n, ast.Break | ast.Continue) for n in ast.walk(loop))
    return not leaves and any(_sets(stmt, name) for stmt in loop.body)


def _runs(node: ast.AST) -> bool:
    """Whether ``node`` is a loop over a range of literals that runs at least once."""
    if not isinstance(node, ast.For) or not isinstance(node.iter, ast.Call):
        return False
    bounds = [a.value for a in node.iter.args if isinstance(a, ast.Constant)]
    numbers = [b for b in bounds if isinstance(b, int)]
    is_range = isinstance(node.iter.func, ast.Name) and node.iter.func.id == "range"
    if not is_range or not numbers or len(numbers) < len(node.iter.args) or 0 in numbers[2:]:
        return False
    return len(range(*numbers)) > 0


def _parts(test: ast.expr) -> list[ast.expr]:
    """The conditions that hold where ``test`` does."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [part for value in test.values for part in _parts(value)]
    return [test]


def _guards(tree: ast.FunctionDef, test: ast.expr, stores: list[Body]) -> bool:
    """Whether the name is set under the same condition, whose variables do not change."""
    text = ast.dump(test)
    if any(isinstance(n, ast.Call | ast.Subscript) for n in ast.walk(test)):
        return False
    for name in {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}:
        if sum(_assigns(n, name) for n in ast.walk(tree)) > 1:
            return False
    conditions = [n for n in ast.walk(tree) if isinstance(n, ast.If)]
    return any(
        c.body is body and text in map(ast.dump, _parts(c.test)) and len(_parts(c.test)) == 1
        for c in conditions
        for body in stores
    )


def _assigns(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name


def _marks(tree: ast.FunctionDef, test: ast.expr, stores: list[Body]) -> bool:
    """Whether ``test`` holds only after a flag or an index was set beside the name."""
    flag = test.left if isinstance(test, ast.Compare) else test
    if not isinstance(flag, ast.Name):
        return False
    first: list[ast.expr] = []
    for body in _bodies(tree):
        for stmt in body:
            if isinstance(stmt, ast.AugAssign | ast.For) and _assigns(stmt.target, flag.id):
                return False
            if _sets(stmt, flag.id) and not any(body is other for other in stores):
                if not isinstance(stmt, ast.Assign):
                    return False
                first.append(stmt.value)
    return bool(first) and all(_fails(test, flag.id, value) for value in first)


def _fails(test: ast.expr, flag: str, value: ast.expr) -> bool:
    """Whether ``test`` does not hold while its variable ``flag`` is ``value``, a literal."""
    if isinstance(value, ast.Call) and len(value.args) == 1:
        value = value.args[0]  # int(-1)
    names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    plain = ast.Constant | ast.UnaryOp | ast.USub | ast.Name | ast.Compare | ast.cmpop | ast.Load
    if names != {flag} or not all(isinstance(n, plain) for n in ast.walk(test)):
        return False
    try:
        known = ast.literal_eval(value)
        code = compile(ast.fix_missing_locations(ast.Expression(test)), "<test>", "eval")
        return not eval(code, {"__builtins__": {}, flag: known})
    except (ValueError, TypeError):
        return False
