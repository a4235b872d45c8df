"""A kernel's syntax tree as Python that computes what compiled code does, on the same lines.

Operators, calls and assignments become calls of helpers (``values.py``); statements, names, lines
and columns stay, so breakpoints, pdb and coverage see the user's source.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from inspect import signature
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from kernelcore.builtins.syntax import BINARY, COMPARE, UNARY
from kernelcore.frontend.calls.intrinsics import address_of
from kernelcore.language.bound_names import MISSING
from kernelcore.language.by_reference import place_of, updated_parameters
from kernelcore.language.dialect import dialect_of
from kernelcore.language.function import Function
from kernelcore.language.source import Source, read_source

# Calls that must see the frame of the kernel, or that Python evaluates as they are written.
_AS_WRITTEN = frozenset({"breakpoint", "set_trace", "static", "locals", "vars"})
_codes: WeakKeyDictionary[Callable[..., Any], CodeType] = WeakKeyDictionary()


def rewritten(pyfunc: Callable[..., Any], helpers: Mapping[str, Any]) -> FunctionType:
    """``pyfunc`` with the meaning of the kernel language; its free names are those of now.

    Raises:
        KernelSyntaxError: Its source is not available.
    """
    code = _codes.get(pyfunc)
    if code is None:
        code = _codes[pyfunc] = _compiled(pyfunc)
    cells = dict(zip(pyfunc.__code__.co_freevars, pyfunc.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    dialect = dialect_of(pyfunc)
    own: dict[str, Any] = {}
    if dialect is not None:
        hidden = {n: f for n, f in dialect.functions.items() if n not in pyfunc.__globals__}
        own = {"_kc_operators": dialect.operators, **hidden}
    made = FunctionType(
        code,
        {**pyfunc.__globals__, **helpers, **own},
        pyfunc.__name__,
        pyfunc.__defaults__,
        closure,
    )
    made.__kwdefaults__ = pyfunc.__kwdefaults__
    return made


def _compiled(pyfunc: Callable[..., Any]) -> CodeType:
    source = read_source(pyfunc)
    tree = copy.deepcopy(source.tree)
    ast.increment_lineno(tree, source.line_offset)
    tree.decorator_list, tree.returns = [], None
    for arg in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs):
        arg.annotation = None
    # The function object brings its own defaults.
    tree.args.defaults, tree.args.kw_defaults = [], [None] * len(tree.args.kwonlyargs)
    rewrite = _Rewrite(source, updated_parameters(pyfunc))
    tree.body = [made for stmt in tree.body for made in rewrite.statements(stmt)]
    if rewrite.updates:
        last = _located(tree.body[-1], ast.Return(None))
        tree.body.append(ast.fix_missing_locations(rewrite.visit(last)))
    # Free variables are those of a function around it, and the function's own name is none, nor
    # that of a helper.
    name, tree.name = tree.name, f"_kc_code_of_{tree.name}"
    names = [ast.arg(name) for name in pyfunc.__code__.co_freevars]
    arguments = ast.arguments([], names, None, [], [], None, [])
    around = ast.copy_location(ast.FunctionDef("around", arguments, [tree], []), tree)
    module = ast.fix_missing_locations(ast.Module([around], []))
    outer = compile(module, source.file, "exec", dont_inherit=True)
    code = _inner(_inner(outer, "around"), tree.name)
    return code.replace(co_name=name, co_qualname=pyfunc.__code__.co_qualname)


def _inner(code: CodeType, name: str) -> CodeType:
    found = (c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
    return next(found)


class _Rewrite(ast.NodeTransformer):
    """Operators, calls and assignments to calls of the helpers."""

    def __init__(self, source: Source, updates: Sequence[str] = ()) -> None:
        self._source = source
        self.updates = updates
        dialect = source.dialect
        self._operators: frozenset[str] = frozenset(dialect.operators if dialect else ())

    def statements(self, stmt: ast.stmt) -> list[ast.stmt]:
        """The statements that replace ``stmt``."""
        found: list[ast.stmt] | ast.stmt = self.visit(stmt)
        return found if isinstance(found, list) else [found]

    def _operator(self, op: ast.operator) -> ast.expr:
        """What the helpers take for an operator: its name, or the function of a dialect."""
        name = ast.Constant(BINARY[type(op)].op.name)
        own = type(op).__name__
        if own not in self._operators:
            return name
        functions = ast.Name("_kc_operators", ast.Load())
        function = ast.Subscript(functions, ast.Constant(own), ast.Load())
        return ast.Tuple([function, name], ast.Load())

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        name = self._operator(node.op)
        return _call(node, "_kc_binary", name, self.visit(node.left), self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if isinstance(node.operand, ast.Constant) and isinstance(node.op, ast.USub):
            return node
        operand = self.visit(node.operand)
        return _call(node, "_kc_unary", ast.Constant(UNARY[type(node.op)].op.name), operand)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        node.values = [_call(v, "_kc_truth", self.visit(v)) for v in node.values]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if any(type(op) not in COMPARE for op in node.ops):
            return self.generic_visit(node)
        names = [ast.Constant(COMPARE[type(op)].op.name) for op in node.ops]
        operands = [self.visit(v) for v in (node.left, *node.comparators)]
        if len(names) == 1:
            return _call(node, "_kc_binary", names[0], *operands)
        # A chain evaluates each operand at most once, from the left, and stops where one fails.
        thunks: list[ast.expr] = [_located(node, ast.Lambda(_no_arguments(), v)) for v in operands]
        return _call(node, "_kc_chain", _located(node, ast.Tuple([*names], ast.Load())), *thunks)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = getattr(node.func, "attr", getattr(node.func, "id", None))
        if name in _AS_WRITTEN:
            return node
        targets = self._updated(node)
        if targets:
            node.args = [self._place(a) for a in node.args]
            for keyword in node.keywords:
                keyword.value = self._place(keyword.value)
        node = self.generic_visit(node)  # pyright: ignore[reportAssignmentType]
        name = "_kc_updating" if targets else "_kc_call"
        helper = _located(node, ast.Name(name, ast.Load()))
        call = _located(node, ast.Call(helper, [node.func, *node.args], node.keywords))
        if not targets:
            return call
        held = ast.Name("_kc_results", ast.Store())
        parts: list[ast.expr] = [ast.NamedExpr(held, call)]
        for place, target in enumerate(targets):
            new = ast.Subscript(
                ast.Name("_kc_results", ast.Load()), ast.Constant(place + 1), ast.Load()
            )
            if isinstance(target, ast.Name):
                parts.append(ast.NamedExpr(ast.Name(target.id, ast.Store()), new))
            else:
                parts.append(_call(target, "_kc_store", *self._path(target), new))
        first = ast.Subscript(ast.Tuple(parts, ast.Load()), ast.Constant(0), ast.Load())
        result = ast.Subscript(first, ast.Constant(0), ast.Load())
        return ast.fix_missing_locations(_located(node, result))

    def _updated(self, node: ast.Call) -> list[ast.expr]:
        """The variables and elements that the call of a library function assigns."""
        callee = self._static(node.func)
        for overload in callee.overloads if isinstance(callee, Function) else ():
            keywords = {k.arg: k.value for k in node.keywords if k.arg is not None}
            with suppress(TypeError):
                bound = signature(overload.pyfunc).bind(*node.args, **keywords).arguments
                if overload.updates:
                    return [copy.deepcopy(self._place(bound[name])) for name in overload.updates]
        return []

    def _place(self, node: ast.expr) -> ast.expr:
        """The place that an argument names."""
        is_call = isinstance(node, ast.Call) and self._static(node.func) is address_of
        return place_of(node) if is_call else node

    def _static(self, node: ast.expr) -> object:
        """What a dotted name stands for around the function, or ``MISSING``."""
        if isinstance(node, ast.Name):
            return self._source.find(node.id)
        if isinstance(node, ast.Attribute):
            return getattr(self._static(node.value), node.attr, MISSING)
        return MISSING

    def visit_Assign(self, node: ast.Assign) -> Any:
        value = _call(node.value, "_kc_copied", self.visit(node.value))
        first = node.targets[0]
        is_names = isinstance(first, ast.Name | ast.Tuple) and not _has_places(first)
        if len(node.targets) == 1 and is_names:
            return _located(node, ast.Assign(node.targets, value))
        if len(node.targets) == 1 and not isinstance(first, ast.Tuple | ast.List):
            return self._stored(node, first, value)
        held = ast.Name("_kc_value", ast.Store())
        stmts: list[ast.stmt] = [_located(node, ast.Assign([_located(node, held)], value))]
        for target in node.targets:
            self._unpack(node, target, _located(node, ast.Name("_kc_value", ast.Load())), stmts)
        return stmts

    def _unpack(
        self, node: ast.stmt, target: ast.expr, value: ast.expr, stmts: list[ast.stmt]
    ) -> None:
        if not isinstance(target, ast.Tuple | ast.List):
            stmts.append(self._stored(node, target, _call(node, "_kc_copied", value)))
            return
        for place, part in enumerate(target.elts):
            at = _located(node, ast.Subscript(value, ast.Constant(place), ast.Load()))
            self._unpack(node, part, at, stmts)

    def _stored(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> ast.stmt:
        if isinstance(target, ast.Name):
            return _located(node, ast.Assign([target], value))
        root, path = self._path(target)
        call = _call(target, "_kc_store", root, path, value)
        return _located(node, ast.Expr(call))

    def _path(self, target: ast.expr) -> tuple[ast.expr, ast.expr]:
        """The variable that ``target`` is a part of, and the fields and indices down to it."""
        steps: list[ast.expr] = []
        while isinstance(target, ast.Attribute | ast.Subscript):
            if isinstance(target, ast.Attribute):
                steps.append(ast.Constant(target.attr))
            else:
                # A field is a string, an index a tuple of one.
                steps.append(ast.Tuple([self.visit(target.slice)], ast.Load()))
            target = target.value
        return self.visit(target), ast.Tuple(steps[::-1], ast.Load())

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        name = self._operator(node.op)
        value = self.visit(node.value)
        if isinstance(node.target, ast.Name):
            old = _located(node, ast.Name(node.target.id, ast.Load()))
            return _located(
                node, ast.Assign([node.target], _call(node, "_kc_binary", name, old, value))
            )
        root, path = self._path(node.target)
        return _located(node, ast.Expr(_call(node, "_kc_update", name, root, path, value)))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None or not isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        value = _call(node.value, "_kc_declared", node.annotation, self.visit(node.value))
        return _located(node, ast.Assign([node.target], value))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        # A nested function returns for itself.
        outer, self.updates = self.updates, ()
        found = self.generic_visit(node)
        self.updates = outer
        return found

    def visit_Return(self, node: ast.Return) -> ast.AST:
        value = node.value
        if value is not None:
            value = _call(value, "_kc_copied", self.visit(value))
        if self.updates:
            # A call assigns the last values of these parameters.
            new = [ast.Name(name, ast.Load()) for name in self.updates]
            value = ast.Tuple([value or ast.Tuple([], ast.Load()), *new], ast.Load())
            return ast.fix_missing_locations(_located(node, ast.Return(value)))
        return _located(node, ast.Return(value))


def _has_places(target: ast.expr) -> bool:
    """Whether an element or a field is among what is assigned."""
    return any(isinstance(n, ast.Attribute | ast.Subscript) for n in ast.walk(target))


def _no_arguments() -> ast.arguments:
    return ast.arguments([], [], None, [], [], None, [])


def _located(node: ast.AST, made: Any) -> Any:
    return ast.copy_location(made, node)


def _call(node: ast.AST, name: str, *args: ast.expr) -> ast.Call:
    call = ast.Call(ast.Name(name, ast.Load()), list(args), [])
    return ast.fix_missing_locations(ast.copy_location(call, node))
