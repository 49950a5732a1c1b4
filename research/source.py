"""Static reading of the package: its modules, their imports, and the definitions that names refer to."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGE = "hynet"
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = tuple[str, str]  # module, name in it; the name is empty for the module itself


@dataclass(frozen=True)
class Import:
    """One imported name: `from .module import name as alias`."""

    module: str
    name: str  # empty: the module itself
    alias: str
    in_function: bool


class Module:
    """One file of the package."""

    def __init__(self, path: Path, name: str):
        self.path, self.name = path, name
        self.text = path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @cached_property
    def package(self) -> str:
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @cached_property
    def imports(self) -> list[Import]:
        """Imports of the whole file except those under `if TYPE_CHECKING`."""
        return list(self._imports(self.tree, in_function=False))

    @cached_property
    def definitions(self) -> dict[str, ast.AST]:
        """Top-level functions, classes and assignments by name."""
        found: dict[str, ast.AST] = {}
        for node in self.tree.body:
            if isinstance(node, Function | ast.ClassDef):
                found[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found |= {
                    each.id: node for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)
                }
        return found

    def _imports(self, parent: ast.AST, in_function: bool) -> Iterator[Import]:
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.Import):
                for each in node.names:
                    yield Import(each.name, "", each.asname or each.name.partition(".")[0], in_function)
            elif isinstance(node, ast.ImportFrom):
                above = self.package.split(".")[: len(self.package.split(".")) - node.level + 1] if node.level else []
                module = ".".join([*above, *([node.module] if node.module else [])])
                for each in node.names:
                    yield Import(module, each.name, each.asname or each.name, in_function)
            elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                for other in node.orelse:
                    yield from self._imports(other, in_function)
            else:
                yield from self._imports(node, in_function or isinstance(node, Function | ast.Lambda))


class Source:
    """All modules of the package."""

    def __init__(self, root: Path):
        self.modules: dict[str, Module] = {}
        for path in sorted((root / PACKAGE).rglob("*.py")):
            name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            self.modules[name] = Module(path, name)

    def first(self, candidates: Sequence[str]) -> Module:
        """The first of these files, named from the package's folder, that exists."""
        for each in candidates:
            name = f"{PACKAGE}.{each.removesuffix('.py').replace('/', '.').removesuffix('.__init__')}"
            if name in self.modules:
                return self.modules[name]
        raise SystemExit(f"none of {', '.join(candidates)} is in the package; name the file in research/stats.py.")

    def reached(self, entries: Sequence[Module], every_function: bool = False) -> list[Module]:
        """Modules that the entries import, directly or not, with the packages around them.

        Imports inside functions count in the entries alone, or everywhere with `every_function`. The package's own
        `__init__` counts only where a module imports from it.
        """
        found: set[str] = set()
        queue = [entry.name for entry in entries]
        while queue:
            name = queue.pop()
            if name in found:
                continue
            found.add(name)
            inner = every_function or any(name == entry.name for entry in entries)
            for one in self.modules[name].imports:
                if inner or not one.in_function:
                    queue += self._targets(one)
        return [self.modules[name] for name in sorted(found)]

    def _targets(self, one: Import) -> list[str]:
        target = f"{one.module}.{one.name}" if f"{one.module}.{one.name}" in self.modules else one.module
        if target not in self.modules:
            return []
        parts = target.split(".")
        around = [".".join(parts[:count]) for count in range(2, len(parts))]
        return [*around, target]

    def resolve(self, module: str, name: str) -> Definition | None:
        """The module that defines a name, followed through imports; None if it is not the package's."""
        seen = set()
        while (module, name) not in seen:
            seen.add((module, name))
            if module not in self.modules:
                return None
            if not name or name in self.modules[module].definitions:
                return module, name
            if f"{module}.{name}" in self.modules:
                return f"{module}.{name}", ""
            one = next((each for each in self.modules[module].imports if each.alias == name), None)
            if one is None:
                return None
            module, name = one.module, one.name
        return None


class Route:
    """The files a reader opens from a function on, in source order, until a given definition is named.

    Every name of the package that a function on the route mentions counts with the file that defines it; for an object
    made at module level, the file of its class counts too. A call is followed only if it leads to the goal.
    """

    def __init__(self, source: Source, goals: set[Definition]):
        self.source, self.goals = source, goals
        self.files: set[str] = set()

    def follow(self, module: str, function: Function, inside: str = "") -> bool:
        """Whether the goal is named on the way; `inside` is the class of a method."""
        return self._follow(module, function, inside, frozenset(), count=True)

    def _follow(self, module: str, function: Function, inside: str, path: frozenset[int], count: bool) -> bool:
        if id(function) in path:
            return False
        path = path | {id(function)}
        if count:
            self.files.add(module)
        local = {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)} - {"self", "cls"}
        local |= {each.id for each in ast.walk(function) if isinstance(each, ast.Name) and type(each.ctx) is ast.Store}
        nodes = [each for each in ast.walk(function) if isinstance(each, ast.Name | ast.Attribute)]
        for node in sorted(nodes, key=lambda each: (each.lineno, each.col_offset, -(each.end_col_offset or 0))):
            for target, owner in self._targets(module, node, inside, local):
                if target in self.goals:
                    if count:
                        self.files.add(target[0])
                    return True
                if count:
                    self.files |= {target[0]} if target[1] else set()
                body = self._function(target, owner)
                if body and self._follow(target[0], body, target[1] if owner else "", path, count=False):
                    return not count or self._follow(target[0], body, target[1] if owner else "", path, count=True)
        return False

    def _targets(
        self, module: str, node: ast.Name | ast.Attribute, inside: str, local: set[str]
    ) -> Iterator[tuple[Definition, str]]:
        """Definitions that an expression names, each with the method that is taken of it."""
        if isinstance(node, ast.Name):
            found = None if node.id in local else self.source.resolve(module, node.id)
            if found:
                yield found, ""
                if kind := self._class_of(found):
                    yield kind, ""
            return
        value = node.value.func if isinstance(node.value, ast.Call) else node.value
        if not isinstance(value, ast.Name) or value.id in local:
            return
        if value.id in ("self", "cls") and inside:
            yield (module, inside), node.attr
            return
        found = self.source.resolve(module, value.id)
        if found and not found[1]:
            if named := self.source.resolve(found[0], node.attr):
                yield named, ""
        elif found:
            yield (self._class_of(found) or found), node.attr

    def _class_of(self, definition: Definition) -> Definition | None:
        """The class of an object that a module makes."""
        node = self.source.modules[definition[0]].definitions.get(definition[1])
        value = getattr(node, "value", None)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            return self.source.resolve(definition[0], value.func.id)
        return None

    def _function(self, definition: Definition, method: str) -> Function | None:
        node = self.source.modules[definition[0]].definitions.get(definition[1])
        if isinstance(node, ast.ClassDef):
            wanted = [method] if method else ["__init__", "__post_init__"]
            return next((each for each in node.body if isinstance(each, Function) and each.name in wanted), None)
        return node if isinstance(node, Function) else None
