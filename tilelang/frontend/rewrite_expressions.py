"""The expression half of the rewriter: and, or, not, `x if c else y`, ==, !=, chains, `in`, reads of names that may be gone."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from tilelang.errors import SyntaxProblem
from tilelang.frontend.source import node_span

BUILDER = "__tl"
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is", ast.IsNot: "is not",
    ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


def call(method: str, *arguments: ast.expr) -> ast.Call:
    """`__tl.method(arguments)`."""
    return ast.Call(ast.Attribute(ast.Name(BUILDER, ast.Load()), method, ast.Load()), list(arguments), [])


def string(text: str) -> ast.expr:
    return ast.Constant(text)


def delayed(value: ast.expr) -> ast.expr:
    """`lambda: value`."""
    return ast.Lambda(ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]), value)


class ExpressionRewriter(ast.NodeTransformer):
    """`assigned`: the names the function binds somewhere; a read of one that is not `live` is checked by `__tl.use`."""

    def __init__(self, file: str, assigned: set[str], live: Callable[[], set[str]]) -> None:
        self.file, self.assigned, self.live = file, assigned, live
        self.local: list[set[str]] = []

    def visit(self, node: ast.AST) -> ast.AST:
        """The rewritten node, at the place of the original."""
        new = super().visit(node)
        if new is not node and isinstance(new, ast.AST):
            for part in ast.walk(new):
                if "lineno" in part._attributes and not hasattr(part, "lineno"):
                    ast.copy_location(part, node)
        return new

    def loop_head(self, node: ast.expr) -> ast.expr:
        """The iterable of a for loop, where `range` means a loop of the kernel."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"):
            return self.visit(node)  # type: ignore[return-value]
        self.generic_visit(node)
        head = call("range", node.func, *node.args)
        head.keywords = node.keywords
        for part in ast.walk(head):
            if "lineno" in part._attributes and not hasattr(part, "lineno"):
                ast.copy_location(part, node)
        return head

    # ---- names ----------------------------------------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load) or node.id not in self.assigned or node.id in self.live():
            return node
        if any(node.id in names for names in self.local):
            return node
        return call("use", string(node.id), node)

    def _scoped(self, node: ast.AST, names: Iterable[str]) -> ast.AST:
        self.local.append(set(names))
        new = self.generic_visit(node)
        self.local.pop()
        return new

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        return self._scoped(node, [argument.arg for argument in every if argument is not None])

    def _comprehension(self, node: ast.AST) -> ast.AST:
        targets = [part for generator in node.generators for part in ast.walk(generator.target)]  # type: ignore[attr-defined]
        if any(generator.is_async for generator in node.generators):  # type: ignore[attr-defined]
            self.refuse(node, "an async comprehension has no meaning in a kernel", "use a plain one")
        return self._scoped(node, [part.id for part in targets if isinstance(part, ast.Name)])

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    # ---- calls ----------------------------------------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """`f(x)`, where f may be a plain function whose own expressions are to be rewritten."""
        self.generic_visit(node)
        node.func = call("callee", node.func)
        return node

    # ---- operators ------------------------------------------------------------------------------------------------------------

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        method = "and_" if isinstance(node.op, ast.And) else "or_"
        values = [self.visit(value) for value in node.values]
        result = values[-1]
        for value in reversed(values[:-1]):
            result = call(method, value, delayed(result))  # type: ignore[arg-type]
        return result  # type: ignore[return-value]

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return call("not_", node.operand) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        return call("select", node.test, delayed(node.body), delayed(node.orelse))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) > 1:
            steps = [
                part
                for op, right in zip(node.ops, node.comparators, strict=True)
                for part in (string(_COMPARE[type(op)]), delayed(right))
            ]
            return call("chain", node.left, *steps)
        right = node.comparators[0]
        match node.ops[0]:
            case ast.Eq():
                return call("equal", node.left, right)
            case ast.NotEq():
                return call("not_equal", node.left, right)
            case ast.In():
                return call("contains", node.left, right)
            case ast.NotIn():
                return call("not_", call("contains", node.left, right))
        return node

    # ---- refused --------------------------------------------------------------------------------------------------------------

    def refuse(self, node: ast.AST, message: str, hint: str) -> None:
        raise SyntaxProblem(message, code="TL101", span=node_span(self.file, node), hint=hint)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.refuse(node, "`:=` has no meaning in a kernel", "assign in a statement of its own")

    def visit_Await(self, node: ast.Await) -> None:
        self.refuse(node, "`await` has no meaning in a kernel", "a kernel is a plain def")

    def visit_Yield(self, node: ast.Yield) -> None:
        self.refuse(node, "`yield` has no meaning in a kernel", "write results to a tensor parameter")

    def visit_YieldFrom(self, node: ast.YieldFrom) -> None:
        self.refuse(node, "`yield` has no meaning in a kernel", "write results to a tensor parameter")


class HelperRewriter(ExpressionRewriter):
    """For plain functions, whose statements stay Python's: `yield`, `await` and `:=` do, too, with what they stand in."""

    def visit(self, node: ast.AST) -> ast.AST:
        """As elsewhere, but an operator around `yield`, `await` or `:=`, which cannot be delayed, keeps its Python meaning."""
        delays = isinstance(node, (ast.BoolOp, ast.IfExp)) or (isinstance(node, ast.Compare) and len(node.ops) > 1)
        kept = (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr)
        if isinstance(node, kept) or (delays and any(isinstance(part, kept) for part in ast.walk(node))):
            return self.generic_visit(node)
        return super().visit(node)

    def helper(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """A plain function, with its expressions rewritten and its statements as they are."""
        node.body = [self.visit(statement) for statement in node.body]  # type: ignore[misc]
        return node
