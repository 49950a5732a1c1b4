"""The options of a loss are its keyword arguments; their types say within which bounds. No torch here."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, get_type_hints

from ..errors import BadInput

# By whoever calls the loss with a batch, where the loss takes them; the others are options
GIVEN = ("negatives", "maps", "taught")


@dataclass(frozen=True)
class Bounds:
    """The range allowed for a loss option: `margin: Annotated[float, Bounds(0)]`."""

    least: float = -math.inf
    most: float = math.inf

    def __str__(self) -> str:
        return f"from {self.least:g} to {self.most:g}" if self.most < math.inf else f"{self.least:g} or more"


Weight = Annotated[float, Bounds(0)]  # of a term, and margins
Scale = Annotated[float, Bounds(1e-9)]
Count = Annotated[int, Bounds(2)]


def options(loss: Callable[..., Any]) -> dict[str, Any]:
    """Option -> its default."""
    known = _parameters(loss).values()
    return {one.name: one.default for one in known if one.kind == one.KEYWORD_ONLY and one.name not in GIVEN}


def takes(loss: Callable[..., Any], name: str) -> bool:
    """Whether the loss asks for one of GIVEN."""
    return name in _parameters(loss)


def with_options(loss: Callable[..., Any], given: Mapping[str, float], name: str = "given") -> Callable[..., Any]:
    """The loss with these options set, or a sentence that says which is wrong."""
    if inspect.isclass(loss):
        raise BadInput(f"the loss {name} is a class; give an object of it.")
    known, types = options(loss), _types(loss)
    if strange := [option for option in given if option not in known]:
        there = f"its options are {', '.join(known)}" if known else "it has no options"
        raise BadInput(f"the loss {name} has no {' and no '.join(strange)}; {there}.")
    for option, value in given.items():
        limits = [one for one in getattr(types.get(option), "__metadata__", ()) if isinstance(one, Bounds)]
        for bounds in limits or [Bounds()]:
            if not (isinstance(value, int | float) and math.isfinite(value) and bounds.least <= value <= bounds.most):
                wanted = "a finite number" if bounds == Bounds() else str(bounds)
                raise BadInput(f"{option} of the loss {name} must be {wanted}; got {value}.")
    _check_call(loss, given, name)
    # A command line gives floats; a count stays a count.
    return partial(loss, **{key: int(value) if isinstance(known[key], int) else value for key, value in given.items()})


def _check_call(loss: Callable[..., Any], given: Mapping[str, float], name: str) -> None:
    """Told before the first batch, not from inside it."""
    from_batch = {one: None for one in GIVEN if takes(loss, one)}
    try:
        inspect.signature(getattr(loss, "forward", loss)).bind(None, None, **given, **from_batch)
    except TypeError as error:
        raise BadInput(
            f"the loss {name} must take anchors and positives, and all else by name with defaults: {error}."
        ) from None


def _parameters(loss: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a loss: a function, a partial, a callable object, or a torch module by its `forward`."""
    return inspect.signature(getattr(loss, "forward", loss)).parameters


def _types(loss: Callable[..., Any]) -> dict[str, Any]:
    """Parameter -> its type; none where a name in them is imported for type checkers alone."""
    while isinstance(loss, partial):
        loss = loss.func
    function: Any = loss if inspect.isroutine(loss) else getattr(loss, "forward", type(loss).__call__)
    try:
        return get_type_hints(inspect.unwrap(function), include_extras=True)
    except NameError:
        return {}
