"""A tiny evaluator of C++ expressions: parses by C++'s precedence, converts by C++'s rules, and wraps on overflow as GPUs do.

Knows the integer types, bool, the operators, `static_cast`, the conditional operator and the calls that the printer makes.
"""
from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

# C++ type -> (bits, signed)
TYPES = {
    "bool": (1, False), "signed char": (8, True), "unsigned char": (8, False), "short": (16, True), "unsigned short": (16, False),
    "int": (32, True), "uint32_t": (32, False), "long long": (64, True), "uint64_t": (64, False),
}  # fmt: skip
SUFFIXES = {"": "int", "u": "uint32_t", "ll": "long long", "ull": "uint64_t"}
LEVELS = [
    {"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"==", "!="}, {"<", "<=", ">", ">="}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"},
]  # fmt: skip
TOKEN = re.compile(r"\s*(\d+(?:ull|ll|u)?|[A-Za-z_][\w.]*(?:::\w+)*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!<>?:(),])")
# CUDA's overloads of min and max, after integral promotion.
MIN_MAX = {(a, b) for kinds in (("int", "uint32_t"), ("long long", "uint64_t")) for a in kinds for b in kinds}


@dataclass(frozen=True)
class Value:
    number: int
    type: str

    def to(self, name: str) -> Value:
        """Converted to a type: modulo its range, or whether it is not zero."""
        bits, signed = TYPES[name]
        if name == "bool":
            return Value(int(self.number != 0), name)
        number = self.number % 2**bits
        return Value(number - 2**bits if signed and number >= 2 ** (bits - 1) else number, name)


def promoted(value: Value) -> Value:
    return value.to("int") if TYPES[value.type][0] < 32 else value


def common(a: Value, b: Value) -> tuple[Value, Value]:
    """The usual arithmetic conversions: the wider type, the unsigned one of two as wide."""
    a, b = promoted(a), promoted(b)
    kind = max(a.type, b.type, key=lambda name: (TYPES[name][0], not TYPES[name][1]))
    return a.to(kind), b.to(kind)


class BadText(Exception):
    """The text is not an expression that C++ accepts."""


class Parser:
    def __init__(self, text: str, variables: dict[str, Value]) -> None:
        self.tokens, self.variables, self.at = [], variables, 0
        position = 0
        while position < len(text):
            match = TOKEN.match(text, position)
            if match is None:
                raise BadText(f"cannot read {text[position:]!r}")
            self.tokens.append(match[1])
            position = match.end()

    def evaluate(self) -> Value:
        value = self.conditional()
        if self.at != len(self.tokens):
            raise BadText(f"left over: {self.tokens[self.at :]}")
        return value

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if not token or (wanted and token != wanted):
            raise BadText(f"{wanted!r} expected at {self.tokens[self.at :]}")
        self.at += 1
        return token

    def conditional(self) -> Value:
        condition = self.binary(0)
        if self.peek() != "?":
            return condition
        self.take()
        then = self.conditional()
        self.take(":")
        otherwise = self.conditional()
        if then.type != otherwise.type:
            then, otherwise = common(then, otherwise)
        return then if condition.number else otherwise

    def binary(self, level: int) -> Value:
        if level == len(LEVELS):
            return self.unary()
        value = self.binary(level + 1)
        while self.peek() in LEVELS[level]:
            value = apply(self.take(), value, self.binary(level + 1))
        return value

    def unary(self) -> Value:
        if self.peek() not in ("-", "~", "!"):
            return self.primary()
        sign = self.take()
        value = self.unary()
        if sign == "!":
            return Value(int(not value.number), "bool")
        value = promoted(value)
        return Value(-value.number if sign == "-" else ~value.number, value.type).to(value.type)

    def primary(self) -> Value:
        token = self.take()
        if token == "(":
            value = self.conditional()
            self.take(")")
            return value
        if token == "static_cast":
            return self.cast()
        if token in ("true", "false"):
            return Value(int(token == "true"), "bool")
        if token[0].isdigit():
            return literal(token)
        if self.peek() == "(":
            return self.call(token)
        if token not in self.variables:
            raise BadText(f"{token} is not declared")
        return self.variables[token]

    def cast(self) -> Value:
        self.take("<")
        words = []
        while self.peek() != ">":
            words.append(self.take())
        self.take(">")
        self.take("(")
        value = self.conditional()
        self.take(")")
        return value.to(" ".join(words))

    def call(self, name: str) -> Value:
        self.take("(")
        arguments = [self.conditional()]
        while self.peek() == ",":
            self.take()
            arguments.append(self.conditional())
        self.take(")")
        return CALLS[name](*arguments)


def literal(token: str) -> Value:
    digits = token.rstrip("ul")
    kind = SUFFIXES[token[len(digits) :]]
    value = Value(int(digits), kind)
    if value.to(kind) != value:
        raise BadText(f"{token} does not fit {kind}")
    return value


def apply(symbol: str, a: Value, b: Value) -> Value:
    if symbol in ("&&", "||"):
        return Value(int(bool(a.number and b.number) if symbol == "&&" else bool(a.number or b.number)), "bool")
    if symbol in ("<<", ">>"):  # the left operand's type decides
        a, b = promoted(a), promoted(b)
        return Value(a.number << b.number if symbol == "<<" else a.number >> b.number, a.type).to(a.type)
    a, b = common(a, b)
    if symbol in COMPARE:
        return Value(int(COMPARE[symbol](a.number, b.number)), "bool")
    return Value(ARITHMETIC[symbol](a.number, b.number), a.type).to(a.type)


def toward_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "/": toward_zero, "%": lambda a, b: a - toward_zero(a, b) * b,
}  # fmt: skip
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def one_type(pick: Callable[[int, int], int]) -> Callable[[Value, Value], Value]:
    """A function template <class T> T f(T, T): the types must be equal."""

    def call(a: Value, b: Value) -> Value:
        if a.type != b.type:
            raise BadText(f"no matching function for ({a.type}, {b.type})")
        return Value(pick(a.number, b.number), a.type).to(a.type)

    return call


def overloaded(pick: Callable[[int, int], int]) -> Callable[[Value, Value], Value]:
    def call(a: Value, b: Value) -> Value:
        a, b = promoted(a), promoted(b)
        if (a.type, b.type) not in MIN_MAX:
            raise BadText(f"ambiguous overload for ({a.type}, {b.type})")
        a, b = common(a, b)
        return Value(pick(a.number, b.number), a.type)

    return call


CALLS: dict[str, Callable[..., Value]] = {
    "tl::floor_div": one_type(lambda a, b: a // b), "tl::floor_mod": one_type(lambda a, b: a % b), "min": overloaded(min),
    "max": overloaded(max),
}  # fmt: skip


def evaluate(text: str, variables: dict[str, Value] | None = None) -> Value:
    """The value and type of a C++ expression.  Raises BadText for what a compiler would not take."""
    return Parser(text, variables or {}).evaluate()
