"""Where a memory came from: a closed set of sources, and the other names that are accepted for them."""

from __future__ import annotations

from collections.abc import Mapping

SOURCES = ("user", "agent", "tool", "content", "import")
"""What a person said or wrote; what the agent did or wrote; what a program printed; files, pages, mails and pasted
text; what another memory or a recorded conversation held."""
RELAYED = "relayed"
"""An agent reports what a person said: it is the agent's word, not the person's."""
QUOTED = ("tool", "content")
"""Text from these is shown as quoted data, never as an instruction."""

_OTHER_NAMES = {
    "user": "user_stated stated user_said explicit_instruction explicit instruction correction user_correction person "
    "human",
    "agent": f"{RELAYED} assistant ai model llm learned inferred observed agent_guess code_analysis analysis outcome",
    "tool": "tool_output tool_result tool_call program program_output command command_output output shell terminal "
    "stdout stderr log logs ci",
    "content": "file files document documents doc docs documentation readme markdown pdf code source_code repository "
    "web webpage web_page web_search website page url link html wiki internet search search_result email mail "
    "attachment message slack ticket issue comment review paste pasted clipboard external third_party untrusted",
    "import": "imported conversation chat transcript episode export backup migration",
}
_ALIASES: Mapping[str, str] = {name: name for name in SOURCES} | {
    alias.replace("_", ""): name for name, aliases in _OTHER_NAMES.items() for alias in aliases.split()
}


def find_source(name: str) -> str | None:
    """Return the source that a name stands for, in any case and with any separators; None for an unknown name."""
    return _ALIASES.get("".join(sign for sign in name.casefold() if sign.isalnum()))
