"""What code can remember: the values that Python reaches from a model or a loss.

These are attributes, variables of closures, default arguments, globals that a function names, hooks of layers, and what
all of these hold in turn. Of installed packages, functions are taken at their word, and of their objects only tensors,
arrays and generators count. Not reached are files, code in other languages, and single elements of large containers.
"""

import random
import sys
import sysconfig
from collections import deque
from collections.abc import Iterator
from functools import lru_cache, partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn


class Owner(NamedTuple):
    """Who holds a value: the root from which it is reached, the holder in words, and the name that it has there."""

    root: str
    holder: str
    name: str

    def named(self, name: str) -> "Owner":
        """Return the owner of another value of the same holder."""
        return Owner(self.root, self.holder, name)


GENERATORS = np.random.Generator, np.random.RandomState, random.Random, torch.Generator
_ARRAYS = Tensor, np.ndarray, *GENERATORS
# Draws from these are refused by their names (`refusing_shared_draws`).
_SHARED_GENERATORS = [getattr(draw, "__self__", None) for draw in (np.random.standard_normal, random.random)]
_PLAIN = int, float, complex, str, bytes, bytearray
_NAMED = FunctionType, BuiltinFunctionType, type, nn.Module
_CONTAINERS = dict, list, tuple, set, frozenset, deque
_PLAIN_TYPES = {*_PLAIN, bool, type(None)}
_ATTRIBUTES_OF_TORCH = {*vars(nn.Module()), "_flat_weights"} - {"training"}  # parameters, buffers, submodules, hooks
_HOOKS = {name for name in vars(nn.Module()) if name.endswith("hooks")}
_HOOKS_OF_ALL_MODULES = [name for name in vars(nn.modules.module) if name.startswith("_global_") and "hooks" in name]
_MOST_ELEMENTS, _MOST_OBJECTS, _MOST_LIBRARY_OBJECTS = 256, 20_000, 3


class Same:
    """Stands for an object of which only the identity counts.

    Args:
        value: The object.
    """

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)


def held_by(**roots: Any) -> dict[Owner, list[Any]]:
    """Return the values that can be reached, by who holds them: tensors, arrays, generators, numbers, text, and `Same`.

    Args:
        roots: The model, the loss or other objects, by their names. What two of them reach belongs to the first.

    >>> seen = [1.0]
    >>> [(owner.root, values) for owner, values in held_by(loss=seen).items()]
    [('loss', [1, (1.0,)])]
    """
    reach = _Reach()
    for root, value in roots.items():
        reach.visit(value, Owner(root, f"a {type(value).__name__}", "a value that it holds"))
    for name in _HOOKS_OF_ALL_MODULES:
        reach.visit_hooks(getattr(nn.modules.module, name), Owner("torch", "hooks of all modules", name))
    return reach.held


class _Reach:
    """A walk through objects, each of which is visited once."""

    def __init__(self) -> None:
        self.held: dict[Owner, list[Any]] = {}
        self._seen: dict[int, Any] = {}  # with the objects, so that none is freed and another takes its number

    def visit(self, value: Any, owner: Owner, libraries: int = 0) -> None:
        """Add a value, or what is reached from it.

        Args:
            value: The value.
            owner: Who holds it.
            libraries: How many objects of installed packages hold it. If any do, numbers and text do not count.
        """
        if any(value is generator for generator in _SHARED_GENERATORS):
            return
        if isinstance(value, (*_ARRAYS, *_PLAIN)):
            if isinstance(value, _ARRAYS) or not libraries:
                self.held.setdefault(owner, []).append(value)
            if isinstance(value, Tensor) and value.is_leaf and value.grad is not None:
                self.held[owner].append(value.grad)  # nobody clips it
            return
        if not libraries and (isinstance(value, _NAMED) or _origin(type(value).__module__) != "passed over"):
            # A function that is made anew by the same code is the same.
            same = Same(value.__code__ if isinstance(value, FunctionType) else value)
            self.held.setdefault(owner, []).append(same)
        if value is None or id(value) in self._seen or len(self._seen) > _MOST_OBJECTS:
            return
        self._seen[id(value)] = value
        match value:
            case _ if isinstance(value, _CONTAINERS):
                self._visit_container(value, owner, libraries)
            case nn.Module():
                for name, layer in value.named_modules():
                    self._visit_layer(layer, owner._replace(holder=f"the layer {name!r}, a {type(layer).__name__}"))
            case partial():
                self.visit((value.func, value.args, value.keywords), owner, libraries)
            case MethodType():
                self.visit(value.__func__, owner, libraries)
                self._visit_bound(value.__self__, owner, libraries)
            case FunctionType():
                self._visit_function(value, owner._replace(holder=f"the function {value.__qualname__!r}"))
            case property():
                self.visit((value.fget, value.fset), owner, libraries)
            case staticmethod() | classmethod():
                self.visit(value.__func__, owner, libraries)
            case type():
                self._visit_class(value, owner)
            case ModuleType():
                pass  # a function says which of its values it names
            case _:
                self._visit_object(value, owner, libraries)

    def _visit_container(self, value: Any, owner: Owner, libraries: int) -> None:
        if isinstance(value, dict) and set(map(type, value)) <= _PLAIN_TYPES and not libraries:
            self.held.setdefault(owner, []).append(tuple(value))
        elements = list(value.values()) if isinstance(value, dict) else list(value)
        if not libraries:
            self.held.setdefault(owner, []).append(len(elements))
            if set(map(type, elements)) <= _PLAIN_TYPES:
                self.held[owner].append(tuple(elements))
                return
        for element in elements if len(elements) <= _MOST_ELEMENTS else ():
            self.visit(element, owner, libraries)

    def _visit_layer(self, layer: nn.Module, owner: Owner) -> None:
        self._seen[id(layer)] = layer
        self.held[owner.named("its place")] = [Same(layer)]
        for name, value in (*vars(layer).items(), *layer._parameters.items(), *layer._buffers.items()):
            if name not in _ATTRIBUTES_OF_TORCH:
                self.visit(value, Owner(owner.root, owner.holder, name))
            elif name in _HOOKS and value:
                self.visit_hooks(value, Owner(owner.root, owner.holder, name))
        self._visit_class(type(layer), owner)

    def visit_hooks(self, hooks: Any, owner: Owner) -> None:
        """Add what hooks reach. Neither their number nor those of torch count, because it adds some when a model runs.

        Args:
            hooks: The hooks by their numbers, if there are any.
            owner: Who holds them.
        """
        for hook in list((hooks or {}).values()):
            if not isinstance(hook, FunctionType | MethodType) or _origin(hook.__module__) != "passed over":
                self.visit(hook, owner)

    def _visit_function(self, function: FunctionType, owner: Owner) -> None:
        if _origin(function.__module__) != "own":
            return
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self.visit(_content(cell), owner.named(name))
        self.visit(function.__defaults__, owner.named("a default argument"))
        for name, value in {**(function.__kwdefaults__ or {}), **vars(function)}.items():
            self.visit(value, owner.named(name))
        names = _names(function.__code__)
        for name in names & function.__globals__.keys():
            value = function.__globals__[name]
            self.visit(value, owner.named(name))
            if isinstance(value, ModuleType) and _origin(value.__name__) == "own":
                for attribute in names & vars(value).keys():
                    self.visit(vars(value)[attribute], owner.named(f"{name}.{attribute}"))

    def _visit_class(self, kind: type, owner: Owner) -> None:
        for each in kind.__mro__:
            if _origin(each.__module__) == "own" and (each is kind or id(each) not in self._seen):
                self._seen[id(each)] = each
                for name, value in vars(each).items():
                    if isinstance(value, FunctionType) or not (name.startswith("__") and name.endswith("__")):
                        self.visit(value, Owner(owner.root, f"the class {each.__name__!r}", name))

    def _visit_bound(self, value: Any, owner: Owner, libraries: int) -> None:
        """Visit the object of a method that is called. Of minsep's own objects, only these hold what users gave."""
        if _top(type(value).__module__) == "minsep" and id(value) not in self._seen:
            self._seen[id(value)] = value
            self._visit_attributes(value, owner)
        self.visit(value, owner, libraries)

    def _visit_attributes(self, value: Any, owner: Owner) -> None:
        self._visit_class(type(value), owner)
        for name, inner in _attributes(value):
            self.visit(inner, Owner(owner.root, f"an object of the class {type(value).__name__!r}", name))

    def _visit_object(self, value: Any, owner: Owner, libraries: int) -> None:
        origin = _origin(type(value).__module__)
        if origin == "own":
            self._visit_attributes(value, owner)
        elif (origin == "library" and libraries < _MOST_LIBRARY_OBJECTS) or isinstance(value, SimpleNamespace):
            for _, inner in _attributes(value):
                self.visit(inner, owner, libraries + (origin == "library"))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it has no value yet
        return None


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if hasattr(value, name):
                yield name, getattr(value, name)


@lru_cache(maxsize=4096)
def _names(code: CodeType) -> frozenset[str]:
    """Return the names that a function and those inside it use besides their own variables."""
    inner = [_names(each) for each in code.co_consts if isinstance(each, CodeType)]
    return frozenset(code.co_names).union(*inner)


def _top(module: str | None) -> str:
    return (module or "").partition(".")[0]


@lru_cache(maxsize=4096)
def _origin(module: str | None) -> Literal["own", "library", "passed over"]:
    """Return whose module it is: the user's, an installed package, or one whose objects are not looked into."""
    top = _top(module)
    if top in sys.stdlib_module_names or top in ("torch", "numpy", "minsep"):
        return "passed over"
    place = getattr(sys.modules.get(top), "__file__", None) or ""
    paths = sysconfig.get_paths()
    return "library" if place.startswith((paths["purelib"], paths["platlib"])) else "own"
