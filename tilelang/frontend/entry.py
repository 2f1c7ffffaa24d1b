"""`T.prim_func` and `T.macro`: from a decorated Python function to tile IR."""

from __future__ import annotations

import ast
import inspect
from types import FunctionType
from typing import Any

from tilelang.errors import Span, SyntaxProblem, TileError, TypeProblem
from tilelang.frontend.activation import Activation
from tilelang.frontend.annotations import Ref, TensorSpec, annotation_values, scalar_dtype
from tilelang.frontend.builder import Builder, current
from tilelang.frontend.functions import rewritten
from tilelang.frontend.problems import located
from tilelang.frontend.source import header_span, node_span
from tilelang.ir import tile


def build_kernel(function: object) -> tile.Kernel:
    """Runs a kernel's rewritten source once and gives its tile IR.  Raises a KernelError at the author's line."""
    checked = _plain_function(function, "T.prim_func")
    file = checked.__code__.co_filename
    tree, run = rewritten(checked)
    builder = Builder(checked.__name__, header_span(file, tree))
    try:
        with builder.building():
            activation = Activation(builder, file)
            arguments = [activation.parameter(name, value) for name, value in _parameters(builder, checked, tree)]
            run(activation, *arguments)
        return builder.finish()
    except Exception as error:
        problem = located(error, builder.span, file)
        if problem is error:
            raise
        raise problem from error


def _plain_function(function: object, decorator: str) -> FunctionType:
    if isinstance(function, FunctionType):
        return function
    raise TypeProblem(
        f"@{decorator} decorates a function, not {type(function).__name__}", code="TL113", hint=f"put @{decorator} above a def"
    )


def _parameters(builder: Builder, function: FunctionType, tree: ast.FunctionDef) -> list[tuple[str, object]]:
    """(name, buffer or variable) of every parameter, in order."""
    file = function.__code__.co_filename
    arguments = tree.args
    for extra in (arguments.vararg, arguments.kwarg, *arguments.kwonlyargs):
        if extra is not None:
            raise SyntaxProblem(
                f"{extra.arg} is no plain parameter; a kernel takes positional parameters only",
                code="TL113",
                span=node_span(file, extra),
            )
    known = annotation_values(function, file)
    result = []
    for argument in (*arguments.posonlyargs, *arguments.args):
        span = node_span(file, argument)
        if argument.arg not in known:
            raise TypeProblem(
                f"parameter {argument.arg} has no annotation", code="TL113", span=span,
                hint=f"write {argument.arg}: T.Tensor(shape, dtype) for a tensor, {argument.arg}: T.int32 for a scalar",
            )  # fmt: skip
        result.append((argument.arg, _parameter(builder, argument.arg, known[argument.arg], span)))
    return result


def _parameter(builder: Builder, name: str, annotation: object, span: Span) -> object:
    if isinstance(annotation, TensorSpec):
        return builder.tensor(name, annotation.shape, annotation.dtype, span)
    try:
        return builder.scalar(name, scalar_dtype(annotation, name, span), span)
    except TileError as error:
        error.span = error.span or span
        raise


class Macro:
    """A function whose body is built into the kernel that calls it: scalars by value, tiles by reference, `T.Ref` parameters are
    the caller's mutable scalars or elements."""

    def __init__(self, function: object) -> None:
        self.function = _plain_function(function, "T.macro")
        self.__name__, self.__doc__ = self.function.__name__, self.function.__doc__
        self.signature = inspect.signature(self.function)

    def __call__(self, *args: object, **options: object) -> Any:
        builder = current(f"the macro {self.__name__}")
        bound = self.signature.bind(*args, **options)
        bound.apply_defaults()
        _, run = rewritten(self.function)
        outer = builder.span, builder.names
        activation = Activation(builder, self.function.__code__.co_filename, is_macro=True)
        references = {name for name, value in annotation_values(self.function, activation.file).items() if value is Ref}
        values = [activation.argument(name, value, name in references) for name, value in bound.arguments.items()]
        try:
            result = run(activation, *values)
        except Exception as error:
            problem = _noted(located(error, builder.span, activation.file), self.__name__, outer[0])
            if problem is error:
                raise
            raise problem from error
        builder.span, builder.names = outer
        return result


def _noted(error: TileError, name: str, caller: Span | None) -> TileError:
    """The error with the place of the macro's call."""
    if caller is not None:
        error.notes = (*error.notes, f"in the macro {name}, called here: {caller}")
    return error
