"""Variants by the name of their kind: a file in the right folder is all that it takes to add one."""

import sys
from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any, ClassVar, Self

from minsep.core.validation import in_short


class Registered:
    """A base of variants: a subclass that names its `kind` is known by it.

    A class that derives from this one directly begins a registry of its own.

    >>> class Shape(Registered):
    ...     pass
    >>> class Circle(Shape):
    ...     kind = "circle"
    >>> Shape.of_kind("circle") is Circle
    True
    >>> Shape.of_kind("square")
    Traceback (most recent call last):
    ValueError: The shape is of kind 'square', but it must be one of 'circle'.
    """

    kind: ClassVar[str]
    """The variant's name, in descriptions and wherever a person chooses one."""

    _variants: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if Registered in cls.__bases__:
            cls._variants = {}
        elif "kind" in vars(cls):
            known = cls._variants.setdefault(cls.kind, cls)
            if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
                raise TypeError(
                    f"{cls.__name__} has the kind {cls.kind!r}, but so has {known.__name__}: choose another."
                )
            cls._variants[cls.kind] = cls

    @classmethod
    def is_variant(cls) -> bool:
        """Return whether the class names its kind itself: one that inherits it may do something else."""
        return cls._variants.get(cls.kind) is cls

    @classmethod
    def variants(cls) -> Mapping[str, type[Self]]:
        """Return all variants that derive from this class by kind, in the order in which they were defined."""
        return MappingProxyType({kind: one for kind, one in cls._variants.items() if issubclass(one, cls)})

    @classmethod
    def of_kind(cls, kind: object) -> type[Self]:
        """Return the variant of a kind.

        Args:
            kind: The kind that the variant names. One that no variant names is refused.
        """
        known = cls.variants()
        if not isinstance(kind, str) or kind not in known:
            names = ", ".join(map(repr, known))
            raise ValueError(f"The {cls.__name__.lower()} is of kind {in_short(kind)}, but it must be one of {names}.")
        return known[kind]


def load_variants(package: str) -> None:
    """Import all modules of a package, so that the variants that they define are known.

    Args:
        package: The name of the package, which is being imported.
    """
    for module in iter_modules(sys.modules[package].__path__):
        if not module.name.startswith("_"):
            import_module(f"{package}.{module.name}")
