"""Turns a library's declarations into C++: what a function does follows from its name and its parameters.

The rules, first match first:

  not modelled      says its name on stderr once and returns the library's "not supported"
  names of enums    `const char *f(status)` returns the enumerator's name
  create, destroy   makes or ends the `Object` behind a handle; values given at creation are kept under
                    their names
  set, get          keeps a value in the object, gives it back; `SetAttribute` keeps bytes; `SetStream`
                    the stream
  sizes             what a function reports as a buffer's size is 0
  compute           puts a kernel of the function's name on the handle's stream, with the family's cost;
                    forgets what it overwrites; its small answers (info, result, ...), which tell programs
                    whether it worked, become 0 wherever they live
  anything else     success

Generated functions are weak: one written by hand in the same library replaces it, and the linker is the judge.
"""

from __future__ import annotations

import re

from c_declarations import Declarations, Function, Parameter
from families import NUMBERS, Family, Rule

_SIZE_OUTPUT = (
    r"(l?h?work(space)?(_?inbytes|_?bytes|size\w*)?|p?buffersize\w*|(spmm)?workspacesize\w*|sizeinbytes"
    r"|compressed(buffer)?size)(on(device|host))?"
)
_ANSWER = r"info|devInfo|d_info|infoArray|devInfoArray|result|h_meig|meig64|meig|num_eigs|nnzTotalDevHostPtr"
_NUMBER_TYPES = r"int|int64_t|size_t|long long|unsigned int|float|double|cuComplex|cuDoubleComplex|cusolver_int_t"
_GETTER = r"\w*Get([A-Z0-9]\w*)?"


class Emitter:
    def __init__(self, family: Family, declared: Declarations) -> None:
        self.family = family
        self.declared = declared

    def unit(self, headers: tuple[str, ...], functions: list[Function]) -> str:
        written = [self.function(function) for function in functions]
        includes = [f"#include <{header}>" for header in headers]
        # A header may declare both f and f_v2 and then make f a macro for the second.
        macros = [
            f"#undef {f.name}" for f in functions if f.name + "_v2" in self.declared.functions
        ]
        ours = ["tools/simgpu/stubs/common/call.h", "tools/simgpu/stubs/common/rules.h"]
        if self.family.include and any("launch(Object::from(" in text for text in written):
            ours.append(self.family.include)
        lines = [
            f"// lib{self.family.name}: functions made by generate.py from {', '.join(headers)}.",
            *includes,
            "",
            *[f'#include "{name}"' for name in ours],
            "",
            "// NOLINTBEGIN",
            "using namespace levee::simgpu::stubs;",
            *macros,
            "",
        ]
        return "\n".join([*lines, *written]) + "\n// NOLINTEND\n"

    def function(self, function: Function) -> str:
        parameters = ", ".join(p.text.replace("_Bool", "bool") for p in function.parameters)
        body = [f'SIMGPU_TRACE_CALL("{self.family.name}");', *self._body(function)]
        inside = "".join(f"  {line}\n" for line in body)
        return f"SIMGPU_GENERATED {function.result} {function.name}({parameters}) {{\n{inside}}}\n"

    def untyped(self, names: list[str]) -> str:
        """Functions that PyTorch imports and no header declares: they say so and fail."""
        lines = [
            f"// lib{self.family.name}: symbols that the installed PyTorch imports and no header declares.",
            '#include "tools/simgpu/stubs/common/rules.h"',
            "",
            "using namespace levee::simgpu::stubs;",
            "",
        ]
        for name in names:
            lines.append(
                f'SIMGPU_GENERATED long {name}() {{ return not_declared("{self.family.name}", "{name}"); }}'
            )
        return "\n".join(lines) + "\n"

    # ---- rules ------------------------------------------------------------------------------------------------------

    def _body(self, function: Function) -> list[str]:
        name, family = function.name, self.family
        if re.match(r"pnccl\w+", name):
            return self._forward(function, name[1:])
        if re.fullmatch(family.not_modelled, name):
            return [
                f'simgpu_not_modelled("lib{family.name}", "{name}");',
                *self._returns(function, failed=True),
            ]
        if function.result == "const char *":
            return self._text_of_enum(function)
        lines: list[str] = []
        handle = self._object(function)
        destroys = re.search(r"[dD]estroy", name) is not None
        if handle and not destroys and family.invalid_handle and function.result == family.status:
            lines.append(
                f"if (Object::from({handle.name}) == nullptr) return {family.invalid_handle};"
            )
        created = self._created(function)
        if created:
            lines += self._create(function, created)
        elif destroys and handle:
            lines.append(f"Object::destroy({handle.name});")
        elif re.search(r"SetAttribute$|GetAttribute$", name):
            lines += self._attribute(function, handle)
        elif re.search(r"Set[A-Z0-9]", name) and handle:
            lines += self._set(function, handle)
        elif re.fullmatch(_GETTER, name) and not re.fullmatch(family.host_values, name):
            if function.result not in (family.status, "void"):
                return lines + self._value(function, handle)
            lines += self._get(function, handle)
        else:
            lines += self._sizes(function)
            launches = self._launch(function)
            lines += (
                [*launches, *self._writes(function), *self._answers(function)] if launches else []
            )
        return lines + self._returns(function)

    def _returns(self, function: Function, failed: bool = False) -> list[str]:
        if function.result == "void":
            return []
        if failed and function.result == self.family.status:
            return [f"return {self.family.unsupported};"]
        return ["return {};"]

    def _forward(self, function: Function, target: str) -> list[str]:
        arguments = ", ".join(p.name for p in function.parameters)
        return [f"return {target}({arguments});"]

    def _text_of_enum(self, function: Function) -> list[str]:
        enum = next((p for p in function.parameters if p.type in self.declared.enums), None)
        if enum is None:
            return ['return "";']
        cases = [f'case {value}: return "{value}";' for value in self.declared.enums[enum.type]]
        return [
            f"switch ({enum.name}) {{",
            *[f"  {case}" for case in cases],
            '  default: return "unknown";',
            "}",
        ]

    def _is_handle(self, type_text: str) -> bool:
        return type_text.replace("const", "").strip() in self.declared.pointers

    def _object(self, function: Function) -> Parameter | None:
        """The object that a function works on: its first parameter, if that is a handle."""
        first = function.parameters[0] if function.parameters else None
        return first if first is not None and self._is_handle(first.type) else None

    def _created(self, function: Function) -> Parameter | None:
        if not re.search(r"[cC]reate", function.name):
            return None
        return next(
            (p for p in function.parameters if p.is_output and self._is_handle(p.pointee)), None
        )

    def _stored(self, function: Function) -> list[Parameter]:
        """Parameters whose value can be kept: scalars, enums, handles and addresses."""
        return [
            p
            for p in function.parameters
            if p.type != "function" and not p.text.rstrip().endswith("]")
        ]

    def _create(self, function: Function, created: Parameter) -> list[str]:
        kept = [p for p in self._stored(function) if p is not created]
        if not kept:
            return [f'Object::make({created.name}, "{created.pointee}");']
        lines = [f'if (Object* object = Object::make({created.name}, "{created.pointee}")) {{']
        lines += [f'  object->set("{p.name}", {p.name});' for p in kept]
        return [*lines, "}"]

    def _attribute(self, function: Function, handle: Parameter | None) -> list[str]:
        which = next((p for p in function.parameters if p.type in self.declared.enums), None)
        data = next((p for p in function.parameters if p.type in ("void *", "const void *")), None)
        size = next((p for p in function.parameters if p.type == "size_t"), None)
        written = next((p for p in function.parameters if p.type == "size_t *"), None)
        if data is None or size is None:
            return []
        target = f"Object::from({handle.name})" if handle else "nullptr"
        key = f"static_cast<int>({which.name})" if which and handle else "0"
        if re.search(r"SetAttribute$", function.name):
            return [f"set_attribute({target}, {key}, {data.name}, {size.name});"] if handle else []
        return [
            f"get_attribute({target}, {key}, {data.name}, {size.name}, {written.name if written else 'nullptr'});"
        ]

    @staticmethod
    def _property(name: str) -> str:
        """What a setter and its getter have in common."""
        return re.sub(r"_v\d+$", "", re.sub(r"[SG]et(?=[A-Z0-9])", "", name, count=1))

    def _set(self, function: Function, handle: Parameter) -> list[str]:
        values = [p for p in self._stored(function) if p is not handle]
        stream = next((p for p in values if p.type == "cudaStream_t"), None)
        if stream:
            return (
                [f"Object::from({handle.name})->set_stream({stream.name});"]
                if self.family.invalid_handle
                else []
            )
        key = self._property(function.name)
        lines = [f"if (Object* object = Object::from({handle.name})) {{"]
        lines += [f'  object->set("{key}.{p.name}", {p.name});' for p in values]
        if len(values) == 1:
            lines.append(f'  object->set("{key}", {values[0].name});')
        return [*lines, "}"] if values else []

    def _get(self, function: Function, handle: Parameter | None) -> list[str]:
        key = self._property(function.name)
        lines = []
        for p in function.parameters:
            if not p.is_output or p.pointee in ("void", "FILE") or p is handle:
                continue
            if handle is None:
                lines.append(f"write_zero({p.name});")
            elif p.pointee == "cudaStream_t":
                lines.append(f"write_stream(Object::from({handle.name}), {p.name});")
            else:
                lines.append(
                    f'write_value(Object::from({handle.name}), "{key}.{p.name}", "{p.name}", {p.name});'
                )
        return lines

    def _value(self, function: Function, handle: Parameter | None) -> list[str]:
        """A getter that returns the value itself."""
        if handle is None:
            return ["return {};"]
        key = self._property(function.name)
        return [f'return value_of<{function.result}>(Object::from({handle.name}), "{key}");']

    def _sizes(self, function: Function) -> list[str]:
        return [
            f"write_zero({p.name});"
            for p in function.parameters
            if p.is_output
            and re.fullmatch(_NUMBER_TYPES, p.pointee)
            and re.fullmatch(_SIZE_OUTPUT, p.name.lower())
        ]

    def _answers(self, function: Function) -> list[str]:
        batch = next(
            (p.name for p in function.parameters if p.name in ("batchSize", "batchCount")), "1"
        )
        return [
            f"answer_zero({p.name}, {batch});"
            for p in function.parameters
            if p.is_output
            and re.fullmatch(_NUMBER_TYPES, p.pointee)
            and re.fullmatch(_ANSWER, p.name)
        ]

    def _launch(self, function: Function) -> list[str]:
        first = function.parameters[0] if function.parameters else None
        if first is None or first.type != (self.family.stream_handle or "none"):
            return []
        if re.fullmatch(self.family.silent, function.name):
            return []
        stream = next((p for p in function.parameters if p.type == "cudaStream_t"), None)
        on = stream.name if stream else f"Object::from({first.name})"
        cost = self._cost(function)
        label = re.sub(r"_v2$", "", function.name)
        return [f'launch({on}, "{label}"{", " + cost if cost else ""});']

    def _cost(self, function: Function) -> str:
        expression = self._by_rule(self.family.costs, function)
        return re.sub(r"\b(m|n|k|nrhs|batchCount|batchSize)\b", r"number(\1)", expression)

    def _writes(self, function: Function) -> list[str]:
        statement = self._by_rule(self.family.writes, function)
        return [f"{statement};"] if statement else []

    @staticmethod
    def _by_rule(rules: tuple[Rule, ...], function: Function) -> str:
        """The expression of the first rule that fits the function's name and parameters; "" if none does."""
        names = {p.name for p in function.parameters}
        for rule in rules:
            match = re.fullmatch(rule.pattern, function.name)
            if match is None:
                continue
            expression = rule.expression
            if "type" in match.groupdict():
                expression = expression.replace("\\g<type>", NUMBERS[match.group("type")])
            # Calls and constants are no parameters.
            used = set(re.findall(r"\b[A-Za-z_]\w*\b(?!\()", expression))
            if {u for u in used if not u.isupper() and u not in NUMBERS.values()} <= names:
                return expression
        return ""
