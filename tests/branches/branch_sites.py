"""Where the error branches of a C++ file are, and the file's text with a switch in each.

A branch is an `if`, or the condition of a `?:`, that speaks of a failure (`!x.ok()`, a null pointer, a status code), or
an `if` that leaves its function with one (`return std::nullopt`, `return fail(...)`). It is broken in two ways, and
what it does about the failure in a third; a line of an invariant, which is a LEVEE_CHECK in a function called
`validate` or in a file of that name, in a fourth. What PyTorch's macros (TORCH_CHECK, C10_CUDA_CHECK) and `require`
throw about are branches too:

    ignored   the condition is evaluated and then false: a failure goes by unseen
    always    the condition is evaluated and then true: shows that the way without a failure is tested
    dropped   one statement of its body, or of its `else`, is not executed: a call, an assignment, a count
    unchecked what the line would find is not looked for

Works on text, not on a parse: what it does not understand it leaves alone. Conditions that are declarations and
`if constexpr` are no sites, and no more are the switches of core/mutants.h.
"""

import bisect
import dataclasses
import re

FAILURE = re.compile(
    r"\.ok\(\)|StatusCode::|Outcome::k(Failed|Miss)|End::kExhausted|[=!]= nullptr|\.code\b"
    r"|has_value\(\)|std::nullopt|\berrno\b|\berror_?\b|\b(has_)?failed_?\b|std::errc"
)
# How a body leaves with a failure.
EXIT = re.compile(
    r"throw\b|return (std::nullopt|nullptr;|false;|malformed\(|miss\(|bad_value\(|last_error\("
    r"|(\w+\.)?(refuse|fail(ed)?(_foreign)?)\(|(Status|StatusCode|Attempt)\b(?!\{\})|\{StatusCode"
    r"|(device::)?to_status\()"
)
# A line of an invariant; LEVEE_FIELD is what core/validate.cc calls one for each of several counts.
CHECK = re.compile(r"^[ \t]*(?:\} )?(?:(?:if|for) \(.*\) )?(LEVEE_(?:CHECK\w*|FIELD)\()", re.M)
VALIDATOR = re.compile(r"\bvalidate\w*\([^;{}()]*\)[\w ]*\{")
# A call, an assignment or a count that makes up a whole line or more.
STATEMENT = re.compile(
    r"^[ \t]*("
    r"(?:\*|\(void\))?[A-Za-z_][\w:.>\-\[\]]*\([^;{}]*\)"
    r"|\*?[A-Za-z_][\w:.>\-\[\]]*(?:\(\))?(?:(?:\.|->)[A-Za-z_][\w.>\-\[\]]*)* ?[-+|&]?= [^;{}]+"
    r"|(?:\+\+|--)[A-Za-z_][\w:.>\-\[\]]*"
    r");[ \t]*(?://.*)?$",
    re.M,
)
# What throws unless its condition holds, and what throws unless the status it gets is good.
CONDITION_THROWS = re.compile(r"\bTORCH_CHECK\w*\((?:\w+Error, )?")
STATUS_THROWS = re.compile(r"(?<!void )\b(?:C10_CUDA_CHECK|require)\(")
NOT_DROPPED = re.compile(
    r"(return|const|auto|LEVEE_\w+|if|for|while|break|continue|else|delete|std::u?int)\b"
)


@dataclasses.dataclass
class Mutant:
    number: int
    path: str
    line: int
    kind: str
    what: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.kind}: {self.what}"


@dataclasses.dataclass
class Site:
    """A place in the text: `before` and `after` go around `begin` to `end`, with the number put in."""

    begin: int
    end: int
    before: str
    after: str
    mutants: list


def matching(text, at, opening, closing):
    """The place behind the bracket that closes the one at `at`, strings and comments aside."""
    depth = 0
    i = at
    while i < len(text):
        if text.startswith("//", i):
            i = text.index("\n", i)
            continue
        if text[i] == '"' or (text[i] == "'" and not text[i - 1].isalnum()):
            quote = text[i]
            i += 1
            while text[i] != quote:
                i += 2 if text[i] == "\\" else 1
        elif text[i] == opening:
            depth += 1
        elif text[i] == closing:
            depth -= 1
            if depth == 0:
                return i + 1
        i += 1
    raise ValueError("no closing bracket")


def argument_end(text, at):
    """The place behind the argument that begins at `at`, where its comma or the closing bracket stands."""
    i = at
    while text[i] not in ",)":
        closing = {"(": ")", "{": "}", "[": "]"}.get(text[i])
        i = matching(text, i, text[i], closing) if closing else i + 1
    return i


def body_after(text, at):
    """From where to where the statement goes that begins at or behind `at`, attributes aside."""
    begin = re.compile(r"\s*(?:\[\[\w+\]\]\s*)?").match(text, at).end()
    if text.startswith("{", begin):
        return begin, matching(text, begin, "{", "}")
    return begin, text.index(";", begin) + 1


def condition_of_question(text, question):
    """Where the condition before a `?` begins, or -1."""
    depth = 0
    i = question - 1
    while i > 0:
        c = text[i]
        if c in ")]":
            depth += 1
        elif c in "([" and depth > 0:
            depth -= 1
        elif depth == 0:
            if c in "([{};,?\n" and not (c == "\n" and text[i + 1 :].lstrip()[:2] in ("&&", "||")):
                if c != "\n" or not re.search(r"[(=,:?|&]$|return$", text[:i].rstrip()):
                    return i + 1 if c != "\n" else -1
            if c == "=" and text[i - 1] == " " and text[i + 1] in " \n":
                return i + 1
            if c == ":" and text[i - 1] == " ":
                return i + 1
            if c == "n" and re.search(r"\breturn$", text[max(0, i - 10) : i + 1]):
                return i + 1
        i -= 1
    return -1


class Finder:
    """Collects the sites of one file. Numbers start at `first`."""

    def __init__(self, path, text, first):
        self.path = path
        self.text = text
        self.next_number = first
        self.sites = []
        self.line_ends = [m.start() for m in re.finditer("\n", text)]
        self.taken = []  # (begin, end) of what is already a site
        self._skip_switches()
        self._find_ifs()
        self._find_questions()
        self._find_checks()
        self._find_throws()
        self.sites.sort(key=lambda site: site.begin)

    def _add(self, begin, end, before, after, kinds, what):
        if any(begin < e and b < end for b, e in self.taken):
            return
        self.taken.append((begin, end))
        line = bisect.bisect_left(self.line_ends, begin) + 1
        words = " ".join(what.split())
        mutants = [
            Mutant(self.next_number + i, self.path, line, kind, words)
            for i, kind in enumerate(kinds)
        ]
        self.next_number += len(kinds)
        self.sites.append(Site(begin, end, before, after, mutants))

    def _add_condition(self, begin, end, body=""):
        condition = self.text[begin:end]
        if (FAILURE.search(condition) or EXIT.match(body)) and "mutated(" not in condition:
            before = "::levee_branches::holds(@, static_cast<bool>("
            self._add(begin, end, before, "))", ("ignored", "always"), condition)
            return True
        return False

    def _skip_switches(self):
        """What a switch of core/mutants.h guards runs in no build but its own."""
        for match in re.finditer(r"if \(mutated\(", self.text):
            self.taken.append(body_after(self.text, matching(self.text, match.end() - 9, "(", ")")))

    def _find_ifs(self):
        text = self.text
        for match in re.finditer(r"^[ \t}]*(?:else )?if \(", text, re.M):
            try:
                end = matching(text, match.end() - 1, "(", ")")
                bodies = [body_after(text, end)]
                other = re.compile(r"\s*else\b(?! if)").match(text, bodies[0][1])
                if other:
                    bodies.append(body_after(text, other.end()))
            except ValueError:
                continue
            begin = match.end()
            inside = text[begin : end - 1]
            if ";" in inside:
                begin += inside.rindex(";") + 1
            body = text[slice(*bodies[0])].lstrip("{ \n")
            if not self._add_condition(begin, end - 1, body):
                continue
            for body_begin, body_end in bodies:
                self._find_statements(body_begin, body_end)

    def _find_statements(self, begin, end):
        # A block's brace and the statement behind it may share a line.
        begin += self.text.startswith("{", begin)
        body = self.text[begin:end]
        body = body[:-1] if body.endswith("}") else body
        for match in STATEMENT.finditer(body):
            words = match.group(1)
            if NOT_DROPPED.match(words):
                continue
            self._add(
                begin + match.start(1),
                begin + match.end(1) + 1,
                "if (::levee_branches::runs(@)) { ",
                " }",
                ("dropped",),
                words,
            )

    def _find_checks(self):
        """The lines of invariants."""
        text = self.text
        if self.path.endswith("/validate.cc"):
            places = [(0, len(text))]
        else:
            places = [
                (match.start(), matching(text, match.end() - 1, "{", "}"))
                for match in VALIDATOR.finditer(text)
            ]
        for begin, end in places:
            for match in CHECK.finditer(text, begin, end):
                if text.startswith("\\", text.index("\n", match.end()) - 1):
                    continue  # in the body of a macro: its uses count
                behind = matching(text, match.end() - 1, "(", ")")
                behind += text.startswith(";", behind)
                self._add(
                    match.start(1),
                    behind,
                    "if (const ::levee_branches::Check levee_check{@}; levee_check.runs()) { ",
                    " }",
                    ("unchecked",),
                    text[match.start(1) : behind],
                )

    def _find_throws(self):
        """Conditions and statuses that throw in a function of their own."""
        for match in CONDITION_THROWS.finditer(self.text):
            end = argument_end(self.text, match.end())
            condition = self.text[match.end() : end]
            if condition != "false":
                before = "!::levee_branches::holds(@, !static_cast<bool>("
                kinds = ("ignored", "always")
                self._add(match.end(), end, before, "))", kinds, f"not ({condition})")
        for match in STATUS_THROWS.finditer(self.text):
            end = argument_end(self.text, match.end())
            self._add(
                match.end(),
                end,
                "::levee_branches::unseen(@, ",
                ")",
                ("ignored",),
                self.text[match.start() : end] + ")",
            )

    def _find_questions(self):
        for match in re.finditer(r"(?<=[\w)\]])\s\?\s", self.text):
            line_begin = self.text.rfind("\n", 0, match.start()) + 1
            if "//" in self.text[line_begin : match.start()]:
                continue
            begin = condition_of_question(self.text, match.start())
            if begin >= 0:
                self._add_condition(begin, match.start())


def rewritten(text, sites):
    """The text with a switch in each of the sites."""
    for site in sorted(sites, key=lambda site: site.begin, reverse=True):
        before = site.before.replace("@", str(site.mutants[0].number))
        text = (
            text[: site.begin]
            + before
            + text[site.begin : site.end]
            + site.after
            + text[site.end :]
        )
    return text
