"""Rewrites the body of a kernel so that running it builds the kernel.

The rewriting only inserts calls on an explicit first argument, `__tl` (an `Activation`); it evaluates nothing and knows nothing
of the values, so it is a function from text to text:

    for ko in T.Pipelined(n):              __tl.at(3, 4, 3, 28)
        x = A[ko] + 1                      for ko in __tl.loop('ko', T.Pipelined(n)):
                                               __tl.at(4, 8, 4, 21, 'x')
                                               x = __tl.assign('x', A[ko] + 1)

Only the statements listed in `_Statements` are rewritten; every other one is a SyntaxProblem TL101 at its place.  Line and column
numbers stay those of the user's file.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable

from tilelang.errors import Span, SyntaxProblem
from tilelang.frontend.rewrite_expressions import BUILDER, ExpressionRewriter, HelperRewriter, call, string
from tilelang.frontend.source import node_span

_HINTS: dict[type[ast.AST], str] = {
    ast.Try: "check for the error before the kernel is built",
    ast.Raise: "use assert on Python values",
    ast.Global: "pass the value as an argument of the function around the kernel",
    ast.Nonlocal: "pass the value as an argument of the function around the kernel",
    ast.Delete: "names end with their block",
    ast.ClassDef: "define the class outside the kernel",
    ast.Import: "import at the top of the file",
    ast.ImportFrom: "import at the top of the file",
    ast.Match: "use if and elif",
    ast.AsyncFunctionDef: "use a plain def under @T.macro",
    ast.AsyncFor: "use a plain for",
    ast.AsyncWith: "use a plain with",
}  # fmt: skip
_WORDS: dict[type[ast.AST], str] = {
    ast.Try: "try", ast.Raise: "raise", ast.Global: "global", ast.Nonlocal: "nonlocal", ast.Delete: "del", ast.ClassDef: "class",
    ast.Import: "import", ast.ImportFrom: "import", ast.Match: "match", ast.AsyncFunctionDef: "async def",
    ast.AsyncFor: "async for", ast.AsyncWith: "async with",
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.LShift: "<<", ast.RShift: ">>",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.Pow: "**", ast.MatMult: "@",
}  # fmt: skip


def rewrite_function(tree: ast.FunctionDef, file: str) -> ast.FunctionDef:
    """`tree` with `__tl` as its first argument, without decorators, annotations and defaults, its body building IR.

    Raises SyntaxProblem TL101 for a construct that has no meaning in a kernel."""
    parameters = [argument.arg for argument in _arguments(tree.args)]
    rewriter = _Statements(file, set(parameters) | _bound_names(tree.body), set(parameters))
    body = rewriter.block(_without_docstring(tree.body)) or [ast.Pass()]
    result = ast.FunctionDef(
        name=tree.name, args=_plain_arguments(tree.args), body=body, decorator_list=[], returns=None, type_comment=None
    )
    if sys.version_info >= (3, 12):
        result.type_params = []
    ast.copy_location(result, tree)
    return ast.fix_missing_locations(result)


def rewritten_text(source: str, file: str = "kernel.py") -> str:
    """The first function of `source`, rewritten, as text."""
    tree = next(node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    return ast.unparse(rewrite_function(tree, file)) + "\n"


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    extra = [arguments.vararg] if arguments.vararg else []
    return [
        *arguments.posonlyargs,
        *arguments.args,
        *extra,
        *arguments.kwonlyargs,
        *([arguments.kwarg] if arguments.kwarg else []),
    ]


def _plain_arguments(arguments: ast.arguments) -> ast.arguments:
    """All parameters as positional ones after `__tl`; binding arguments to them is the caller's business."""
    plain = [ast.copy_location(ast.arg(arg=argument.arg), argument) for argument in _arguments(arguments)]
    return ast.arguments(posonlyargs=[], args=[ast.arg(arg=BUILDER), *plain], kwonlyargs=[], kw_defaults=[], defaults=[])


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    return body[1:] if is_text else body


def _bound_names(body: Iterable[ast.stmt]) -> set[str]:
    """Every name that a statement of the function itself binds."""
    found: set[str] = set()
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
            continue
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        pending.extend(ast.iter_child_nodes(node))
    return found


class _Statements:
    """One function's statements.  `live`: names certainly bound in a block that is still open, whose reads need no check."""

    def __init__(self, file: str, assigned: set[str], live: set[str]) -> None:
        self.file, self.count, self.live = file, 0, live
        self.expressions = ExpressionRewriter(file, assigned, lambda: self.live)

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The rewritten statements of one block, which sees what is live now; what it binds is forgotten after it."""
        return [new for statement in body for new in self.statement(statement)]

    def inner(self, body: list[ast.stmt], names: Iterable[str] = ()) -> list[ast.stmt]:
        outside = self.live
        self.live = outside | set(names)
        result = self.block(body) or [ast.Pass()]
        self.live = outside
        return result

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        name = f"visit_{type(node).__name__}"
        if not hasattr(self, name):
            word = _WORDS.get(type(node), type(node).__name__)
            self.refuse(
                node, f"`{word}` has no meaning in a kernel", _HINTS.get(type(node), "see the statements a kernel may hold")
            )
        new: list[ast.stmt] = getattr(self, name)(node)
        for statement in new:
            for part in ast.walk(statement):
                if "lineno" in part._attributes and not hasattr(part, "lineno"):
                    ast.copy_location(part, node)
        return new

    def refuse(self, node: ast.AST, message: str, hint: str) -> None:
        span = node_span(self.file, node)
        if span.end_line != span.line:
            span = Span(span.file, span.line, span.column)
        raise SyntaxProblem(message, code="TL101", span=span, hint=hint)

    def place(self, node: ast.stmt, head: ast.AST | None = None, names: Iterable[str] = ()) -> ast.stmt:
        """`__tl.at(...)`: the place of a statement, or of its head for one that has a body, and the names it assigns."""
        end = head or node
        numbers = (node.lineno, node.col_offset, end.end_lineno, end.end_col_offset)  # type: ignore[attr-defined]
        return ast.Expr(call("at", *(ast.Constant(number) for number in numbers), *(string(name) for name in names)))

    def value(self, node: ast.expr) -> ast.expr:
        return self.expressions.visit(node)  # type: ignore[return-value]

    def temporary(self) -> str:
        self.count += 1
        return f"__tl_{self.count}"

    # ---- assignments ----------------------------------------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        value = self.value(node.value)
        names = [name for target in node.targets for name in _names(target)]
        place = self.place(node, names=names)
        if len(node.targets) == 1:
            return [place, *self.bind(node.targets[0], value)]
        shared = self.temporary()
        parts = [part for target in node.targets for part in self.bind(target, ast.Name(shared, ast.Load()))]
        return [place, _store(shared, call("value", value)), *parts]

    def bind(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        """Statements that give `value` to any form of target."""
        if isinstance(target, ast.Name):
            self.live = self.live | {target.id}
            return [_store(target.id, call("assign", string(target.id), value))]
        if isinstance(target, ast.Subscript):
            return [ast.Expr(call("set_item", *self.element(target), value))]
        if isinstance(target, (ast.Tuple, ast.List)):
            return self.bind_many(target.elts, value)
        word = "an attribute" if isinstance(target, ast.Attribute) else "this"
        self.refuse(target, f"{word} cannot be assigned in a kernel", "assign to a name or to an element of a buffer")
        return []

    def bind_many(self, targets: list[ast.expr], value: ast.expr) -> list[ast.stmt]:
        """A tuple target: all values first, then one after the other, so that `a, b = b, a` works."""
        items = self.temporary()
        starred = [at for at, target in enumerate(targets) if isinstance(target, ast.Starred)]
        counts = [len(targets)] if not starred else [starred[0], len(targets) - starred[0] - 1]
        result: list[ast.stmt] = [_store(items, call("unpack", value, *(ast.Constant(count) for count in counts)))]
        for at, target in enumerate(targets):
            inner = target.value if isinstance(target, ast.Starred) else target
            result += self.bind(inner, ast.Subscript(ast.Name(items, ast.Load()), ast.Constant(at), ast.Load()))
        return result

    def element(self, target: ast.Subscript) -> tuple[ast.expr, ast.expr, ast.expr]:
        """(name of the object or None, the object, the key) of a subscript target."""
        name = string(target.value.id) if isinstance(target.value, ast.Name) else ast.Constant(None)
        return name, self.value(target.value), _key(self.value(target.slice))

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        value, op = self.value(node.value), string(_OPERATORS[type(node.op)])
        place = self.place(node, names=_names(node.target))
        if isinstance(node.target, ast.Subscript):
            return [place, ast.Expr(call("augment_item", *self.element(node.target), op, value))]
        if isinstance(node.target, ast.Name):
            name = node.target.id
            old = self.value(ast.copy_location(ast.Name(name, ast.Load()), node.target))
            return [place, _store(name, call("augment", string(name), old, op, value))]
        self.refuse(node.target, "an attribute cannot be assigned in a kernel", "assign to a name or to an element of a buffer")
        return []

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        if node.value is None:
            return [ast.Pass()]
        value = self.value(node.value)
        if not isinstance(node.annotation, ast.Constant):
            value = call("annotated", node.annotation, value)
        return [self.place(node, names=_names(node.target)), *self.bind(node.target, value)]

    # ---- blocks ---------------------------------------------------------------------------------------------------------------

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        self.refuse_else(node)
        iterable = self.expressions.loop_head(node.iter)
        names = self.plain_names(node.target, "the variables of a loop")
        body = self.inner(node.body, names)
        loop = ast.For(node.target, call("loop", _pattern(node.target), iterable), body, [], None)
        return [self.place(node, node.iter), loop]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        self.refuse_else(node)
        name = self.temporary()
        test = ast.Call(ast.Attribute(ast.Name(name, ast.Load()), "test", ast.Load()), [self.value(node.test)], [])
        return [self.place(node, node.test), _store(name, call("while_")), ast.While(test, self.inner(node.body), [])]

    def refuse_else(self, node: ast.For | ast.While) -> None:
        if node.orelse:
            word = "for" if isinstance(node, ast.For) else "while"
            message, hint = (
                f"`{word} ... else` has no meaning in a kernel",
                "put the else part after the loop, under an if where needed",
            )
            raise SyntaxProblem(message, code="TL101", span=self.else_span(node), hint=hint)

    def else_span(self, node: ast.For | ast.While) -> Span:
        """The `else:` line, which the tree has no node for: it is the last such line before the else part."""
        first = node.orelse[0]
        for line in range(first.lineno, node.body[-1].end_lineno or node.lineno, -1):
            span = Span(self.file, line, node.col_offset, line, node.col_offset + len("else"))
            if span.source_line()[node.col_offset :].startswith("else"):
                return span
        return Span(self.file, node.lineno, node.col_offset, node.lineno, node.col_offset + len("for"))

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        name = self.temporary()
        place = self.place(node, node.test)
        head = _store(name, call("if_", self.value(node.test)))
        parts: list[ast.stmt] = [place, head, ast.If(_method(name, "then"), self.inner(node.body), [])]
        if node.orelse:
            parts.append(ast.If(_method(name, "otherwise"), self.inner(node.orelse), []))
        return [*parts, ast.Expr(_method(name, "end"))]

    def visit_With(self, node: ast.With) -> list[ast.stmt]:
        items, names = [], []
        for item in node.items:
            value = self.value(item.context_expr)
            pattern = ast.Constant(None) if item.optional_vars is None else _pattern(item.optional_vars)
            if item.optional_vars is not None:
                names += self.plain_names(item.optional_vars, "the names of a with")
                self.live = self.live | set(names)
            items.append(ast.withitem(call("enter", pattern, value), item.optional_vars))
        last = node.items[-1]
        place = self.place(node, last.optional_vars or last.context_expr)
        return [place, ast.With(items, self.inner(node.body), None)]

    def plain_names(self, target: ast.expr, what: str) -> list[str]:
        for part in ast.walk(target):
            if isinstance(part, (ast.Subscript, ast.Attribute)):
                self.refuse(part, f"{what} are plain names", "assign to elements in the body")
        return _names(target)

    # ---- the rest -------------------------------------------------------------------------------------------------------------

    def visit_Expr(self, node: ast.Expr) -> list[ast.stmt]:
        if isinstance(node.value, ast.Constant):
            return [ast.Pass()]
        return [self.place(node), ast.Expr(self.value(node.value))]

    def visit_Pass(self, node: ast.Pass) -> list[ast.stmt]:
        return [node]

    def visit_Break(self, node: ast.Break) -> list[ast.stmt]:
        return [self.place(node), ast.If(call("break_"), [node], [])]

    def visit_Continue(self, node: ast.Continue) -> list[ast.stmt]:
        return [self.place(node), ast.If(call("continue_"), [node], [])]

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        arguments = [] if node.value is None else [self.value(node.value)]
        return [self.place(node), ast.Return(call("return_", *arguments))]

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        message = ast.Constant(None) if node.msg is None else self.value(node.msg)
        return [self.place(node), ast.Expr(call("check", self.value(node.test), _delayed(message)))]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> list[ast.stmt]:
        """A nested function: a macro rewrites itself; in a plain helper only the expressions are."""
        words = {
            getattr(part, "attr", getattr(part, "id", "")) for decorator in node.decorator_list for part in ast.walk(decorator)
        }
        self.live = self.live | {node.name}
        if not words & {"macro", "prim_func"}:
            names = {argument.arg for argument in _arguments(node.args)} | _bound_names(node.body)
            node = HelperRewriter(self.file, set(), lambda: names).helper(node)
        return [
            self.place(node, None, [node.name]),
            node,
            _store(node.name, call("assign", string(node.name), ast.Name(node.name, ast.Load()))),
        ]


def _store(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _method(name: str, method: str) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name(name, ast.Load()), method, ast.Load()), [], [])


def _delayed(value: ast.expr) -> ast.expr:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(nothing, value)


def _names(target: ast.expr) -> list[str]:
    """The names a target binds, in order."""
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, ast.Starred):
        return _names(target.value)
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for part in target.elts for name in _names(part)]
    return []


def _pattern(target: ast.expr) -> ast.expr:
    """A target as a constant: a name, or a tuple of patterns."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return ast.Tuple([_pattern(part) for part in target.elts], ast.Load())
    if isinstance(target, ast.Starred):
        return ast.Tuple([_pattern(target.value)], ast.Load())
    return string(target.id) if isinstance(target, ast.Name) else ast.Constant(None)


def _key(index: ast.expr) -> ast.expr:
    """A subscript's index as an ordinary expression: slices become `slice(...)`."""
    if isinstance(index, ast.Slice):
        parts = [part or ast.Constant(None) for part in (index.lower, index.upper, index.step)]
        return ast.Call(ast.Name("slice", ast.Load()), parts, [])
    if isinstance(index, ast.Tuple):
        return ast.Tuple([_key(part) for part in index.elts], ast.Load())
    return index
