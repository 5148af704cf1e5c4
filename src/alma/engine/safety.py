"""Commands that weaken safety: what an agent worked out by them is never shown without a person's acceptance.

In doubt a command counts as weakening. The cost of that is an observation that is not shown.
"""

from __future__ import annotations

import re

_REST = r"[^|;&\n]*"
"""The rest of one simple command."""
_FETCH = r"\b(?:curl|wget|fetch|iwr|irm|invoke-webrequest|invoke-restmethod)\b"
_SHELL = r"(?:sudo\s+)?(?:\S*/)?(?:(?:ba|z|da|k|fi)?sh|python[\d.]*|node|deno|perl|ruby|php|iex|invoke-expression)\b"

_WEAKENING = {
    "force push": (
        rf"\bgit\b{_REST}\bpush\b{_REST}\s(?:--force\S*|--mirror|--delete|-[a-z]*[fd][a-z]*|\+\S+|:\S+)(?=\s|$)",
    ),
    "forced": (r"(?<!\S)--(?:force|hard|yes-i-really-mean-it|admin)(?:[-=]\S*)?(?=\s|$)",),
    "skipped hooks": (
        r"--no-verify\b",
        rf"\bgit\b{_REST}\bcommit\b{_REST}\s-[a-z]*n[a-z]*(?=\s|$)",
        r"\bhusky\w*=\S|(?<!\S)skip=\S|core\.hookspath",
    ),
    "skipped checks or tests": (
        r"-d\s*(?:skip\w*|maven\.test\.skip\w*|\w+\.skip\b)",
        r"--?(?:skip|no|ignore|disable|without)-?(?:verif\w*|check\w*|tests?|lint\w*|typecheck\w*|types?|valid\w*)\b",
        r"--?(?:skip|no|ignore|disable|without)-?(?:audit\w*|hooks?|scripts|errors?|strict\w*|integrity)\b",
        r"--(?:skip|no)-?[a-z-]*checks?\b|--no-frozen-lockfile\b|--ignore-platform-reqs?\b",
        r"\bgradlew?\b.*\s-x\s+\S|--passwithnotests\b|--exit-zero\b|--continue-on-error\b",
        r"\|\|\s*(?:true|:|exit\s+0)|\bset\s+\+e\b|(?<!\S)\w*skip\w*(?:test|check|lint|hook)\w*=",
    ),
    "disabled linter": (
        r"eslint-disable|\bnoqa\b|@ts-(?:ignore|nocheck)|\bnolint\b|disable_\w*lint\w*=|-wno-error|allow\(warnings\)",
    ),
    "disabled TLS verification": (
        rf"\bcurl\b{_REST}\s(?:-[a-z]*k[a-z]*|--insecure|--proxy-insecure)(?=\s|$)",
        r"--no-check-certificate|--insecure\b|--trusted-host|-skipcertificatecheck|insecure[-_]skip",
        r"ssl[-_.]?(?:no[-_.]?)?verify\w*\s*[= ]\s*(?:false|0|no)|git_ssl_no_verify|strict-ssl[= ]false",
        r"tls_reject_unauthorized|pythonhttpsverify|verify\s*=\s*false|stricthostkeychecking[= ](?:no|off)",
        r"--(?:skip|no)-(?:tls|ssl)|--allow-(?:insecure|unauthenticated|untrusted)",
    ),
    "other user's rights": (
        r"(?:^|[\s;&|(`$])(?:sudo|doas|pkexec|runas|gsudo)\s|(?:^|[\s;&|])su\s+(?:-|\w)|--privileged\b|--unsafe-perm\b",
    ),
    "deletes files": (
        rf"\brm\s{_REST}-[a-z]*[rf]|\brm\s{_REST}--(?:recursive|force)|\brmdir\s+/s|\bremove-item\b|\bdel\s+/",
        rf"\bfind\b{_REST}-delete|\bshred\b|\bmkfs|\bdd\s+\S*of=|\btruncate\b|\bprune\b",
        rf"\bgit\b{_REST}\b(?:reset\s+--hard|clean\s+-|checkout\s+(?:-f|--\s+\.)|restore\s+\.|branch\s+-d)",
        r"\bgit\s+stash\s+(?:drop|clear)|\bdrop\s+(?:table|database|schema)\b",
    ),
    "runs a download": (
        rf"{_FETCH}[^;\n]*\|\s*{_SHELL}",
        rf"(?:\beval\b|\bsource\b|(?:^|\s)\.\s|{_SHELL})[^\n]*(?:\$\(|<\(|`)\s*{_FETCH}",
        rf"{_FETCH}[^\n]*&&[^\n]*{_SHELL}|\biex\b",
    ),
    "opens files to everyone": (
        rf"\bchmod\b{_REST}\s(?:[0-7]?[0-7][0-7][2367]|[ugoa]*[oa][ugoa]*[+=]\w*w\w*|\+\w*w\w*)(?=\s|$)",
        r"\bumask\s+0+\b|\bicacls\b.*everyone",
    ),
    "disabled signing": (r"--no-?(?:gpg|sign)\S*|gpg\.?sign[= ]+(?:false|0|no)|--nogpg\w*|signature-verification[= ]",),
    "disabled protection": (
        r"\bsetenforce\s+0|\bufw\s+disable|--no-sandbox\b|--disable-(?:web-)?security|--dangerously\S*|--yolo\b",
        r"--bypass\S*|--break-system-packages\b|--allow-(?:root|unsafe|all|dirty)\b|--no-audit\b|--unsafe\S*",
        r"(?<!\S)-executionpolicy\b",
    ),
}
_PATTERNS = [(reason, re.compile("|".join(patterns), re.IGNORECASE)) for reason, patterns in _WEAKENING.items()]
_MOST_CHARS = 1000


def find_weakening(command: str) -> str:
    """Return how a command line weakens safety, in two or three words; empty when it does not seem to."""
    if len(command) > _MOST_CHARS:
        return "too long to check"
    return next((reason for reason, pattern in _PATTERNS if pattern.search(command)), "")
