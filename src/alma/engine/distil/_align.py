"""Two parsed texts laid side by side: which words answer each other, and what the comparison says in numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from alma.engine.distil import _words as w
from alma.engine.distil._lexicon import alike, opposed, rivals
from alma.engine.distil._parse import Parsed, Word
from alma.engine.distil._quantities import Quantity

MATCH = 0.5  # the weakest relation that counts as an answer
MOST_WORDS = 40
_VERSION = re.compile(r"v?\d+(?:\.\d+)*\Z")


@dataclass(frozen=True, slots=True)
class Match:
    left: int
    right: int
    strength: float  # negative for antonyms


@dataclass(frozen=True, slots=True)
class Alignment:
    left: tuple[Word, ...]
    right: tuple[Word, ...]
    matches: tuple[Match, ...]
    antonyms: tuple[Match, ...]
    only_left: tuple[int, ...]
    only_right: tuple[int, ...]

    @property
    def rest_left(self) -> float:
        """The weight of the words on the left that nothing answers."""
        return sum(self.left[i].weight for i in self.only_left)

    @property
    def rest_right(self) -> float:
        return sum(self.right[j].weight for j in self.only_right)


def align(a: Parsed, b: Parsed) -> Alignment:
    left, right = a.words[:MOST_WORDS], b.words[:MOST_WORDS]
    matches: list[Match] = []
    free_left, free_right = list(range(len(left))), list(range(len(right)))
    _take_equal(left, right, free_left, free_right, matches)
    _take_joined(left, b.joined, free_left, right, free_right, matches)
    _take_joined(right, a.joined, free_right, left, free_left, matches, swapped=True)
    antonyms: list[Match] = []
    candidates = []
    for i in free_left:
        for j in free_right:
            if opposed(left[i].lemma, right[j].lemma):
                antonyms.append(Match(i, j, -1.0))
            strength = alike(left[i].lemma, right[j].lemma)
            if strength >= MATCH:
                candidates.append((-strength, left[i].lemma + right[j].lemma, i, j))
    for used in antonyms:
        _release(free_left, used.left)
        _release(free_right, used.right)
    for strength, _, i, j in sorted(candidates, key=_by_strength):
        if i in free_left and j in free_right:
            free_left.remove(i)
            free_right.remove(j)
            matches.append(Match(i, j, -strength))
    return Alignment(left, right, tuple(matches), tuple(antonyms), tuple(free_left), tuple(free_right))


def _by_strength(candidate: tuple[float, str, int, int]) -> tuple[float, int, int]:
    strength, _, i, j = candidate
    return strength, i + j, abs(i - j)


def _release(free: list[int], index: int) -> None:
    if index in free:
        free.remove(index)


def _take_equal(
    left: tuple[Word, ...], right: tuple[Word, ...], free_left: list[int], free_right: list[int], out: list[Match]
) -> None:
    places: dict[str, list[int]] = {}
    for j, word in enumerate(right):
        places.setdefault(word.lemma, []).append(j)
    for i, word in enumerate(left):
        if found := places.get(word.lemma):
            # A word met twice answers the one in the same phase and polarity, if there is one.
            j = min(found, key=lambda j: (right[j].phase != word.phase, right[j].sign != word.sign, j))
            found.remove(j)
            free_left.remove(i)
            free_right.remove(j)
            out.append(Match(i, j, 1.0))


def _take_joined(
    words: tuple[Word, ...],
    joined: frozenset[str],
    free: list[int],
    others: tuple[Word, ...],
    free_others: list[int],
    out: list[Match],
    *,
    swapped: bool = False,
) -> None:
    """ "backoff" answers "back off"."""
    for i in list(free):
        name = words[i].lemma
        if name not in joined:
            continue
        parts = [j for j in free_others if others[j].lemma and others[j].lemma in name]
        free.remove(i)
        for j in parts:
            free_others.remove(j)
            out.append(Match(j, i, 1.0) if swapped else Match(i, j, 1.0))


# --- facts ------------------------------------------------------------------------------------------------------


def unmatched_quantities(a: Parsed, b: Parsed) -> tuple[list[Quantity], list[Quantity]]:
    rest = list(b.quantities)
    alone = []
    for one in a.quantities:
        partner = next((x for x in rest if one == x), None) or next((x for x in rest if one.agrees(x)), None)
        if partner is None:
            alone.append(one)
        else:
            rest.remove(partner)
    return alone, rest


def missing_strict(a: Parsed, b: Parsed) -> set[str]:
    """Flags, quoted and back-ticked text of `a` that `b` does not have, not even unquoted."""
    return {s for s in a.strict - b.strict if s[:1] == "-" or not _written_in(s, b.key)}


def missing_literals(a: Parsed, b: Parsed) -> set[str]:
    words = {x.lemma for x in b.words} | b.joined
    return {x for x in a.literals - b.literals if x not in words and x not in b.strict and not _written_in(x, b.key)}


def is_version(name: str) -> bool:
    return _VERSION.match(name) is not None


def _written_in(name: str, key: str) -> bool:
    at = key.find(name)
    while at >= 0:
        before, after = key[at - 1 : at], key[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() or before in ("-", "_")) and not (after.isalnum() or after in ("-", "_")):
            return True
        at = key.find(name, at + 1)
    return False


# --- polarity and order -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stance:
    hard_same: float
    hard_flipped: float
    soft_same: float
    soft_flipped: float
    order_same: float
    order_crossed: float
    order_swapped: bool  # something early became late and something late became early
    particles_crossed: bool


def stance(a: Parsed, b: Parsed, laid: Alignment) -> Stance:
    hard, soft, order = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
    moved: set[int] = set()
    for match in laid.matches + laid.antonyms:
        left, right = laid.left[match.left], laid.right[match.right]
        turned = match.strength < 0
        # "run" and "skip" are contraries however light a verb "run" is otherwise.
        weight = 1.0 if turned else min(left.weight, right.weight) * match.strength
        hard[(left.sign != right.sign) != turned] += weight
        soft[(left.soft != right.soft) != turned] += weight
        if left.phase and right.phase and not turned:
            order[left.phase != right.phase] += weight
            if left.phase != right.phase and weight >= 0.5:
                moved.add(left.phase)
    crossed = any((verb, w.DIRECTIONS.get(p)) in b.particles for verb, p in a.particles)
    return Stance(hard[0], hard[1], soft[0], soft[1], order[0], order[1], len(moved) == 2, crossed)


# --- features ---------------------------------------------------------------------------------------------------


def features(a: Parsed, b: Parsed, laid: Alignment, view: Stance) -> dict[str, float]:
    """What the model sees besides the cosine. Every value is the same when a and b change places."""
    total_l, total_r = _weight(laid.left), _weight(laid.right)
    exact = [m for m in laid.matches if m.strength >= 1.0]
    soft_l = sum(laid.left[m.left].weight * m.strength for m in laid.matches)
    soft_r = sum(laid.right[m.right].weight * m.strength for m in laid.matches)
    exact_l = sum(laid.left[m.left].weight for m in exact)
    exact_r = sum(laid.right[m.right].weight for m in exact)
    low, high = sorted((laid.rest_left, laid.rest_right))
    few, many = sorted((total_l, total_r))
    near_l, near_r = _nearness(laid)
    return {
        "cover_low": min(_ratio(soft_l, total_l), _ratio(soft_r, total_r)),
        "cover_high": max(_ratio(soft_l, total_l), _ratio(soft_r, total_r)),
        "exact_low": min(_ratio(exact_l, total_l), _ratio(exact_r, total_r)),
        "exact_high": max(_ratio(exact_l, total_l), _ratio(exact_r, total_r)),
        "rest_low": math.log1p(low),
        "rest_high": math.log1p(high),
        "nothing_left": float(high < 0.3),
        "added_only": float(low < 0.3 <= high),
        "added_one": float(low < 0.3 and 0.3 <= high <= 1.4),
        "one_slot": float(0.7 <= low <= 1.4 and high <= 1.4),
        "near_low": min(near_l, near_r),
        "near_high": max(near_l, near_r),
        "loose": float(sum(m.strength < 0.65 for m in laid.matches)),
        "length_ratio": _ratio(few, many),
        "length": math.log1p(few + many),
        **_stance_features(view, laid),
        **_fact_features(a, b),
        **_shape_features(a, b, laid),
        **_core_features(laid),
    }


def _stance_features(view: Stance, laid: Alignment) -> dict[str, float]:
    return {
        "flipped": _ratio(view.hard_flipped, view.hard_flipped + view.hard_same),
        "flipped_any": float(view.hard_flipped >= 0.5),
        "soft_flipped": _ratio(view.soft_flipped, view.soft_flipped + view.soft_same),
        "antonyms": float(bool(laid.antonyms)),
        "heads_opposed": float(any(_heads_opposed(laid, m) for m in laid.antonyms)),
        "crossed": _ratio(view.order_crossed, view.order_crossed + view.order_same),
        "swapped": float(view.order_swapped),
        "rivals": float(_rivals(laid)),
        "order_kept": float(view.order_same >= 1 and view.order_crossed < 0.5),
        "particles": float(view.particles_crossed),
    }


def _heads_opposed(laid: Alignment, match: Match) -> bool:
    left, right = laid.left[match.left], laid.right[match.right]
    return match.left == match.right == 0 and left.sign == right.sign


def _rivals(laid: Alignment) -> bool:
    return any(rivals(laid.left[i].lemma, laid.right[j].lemma) for i in laid.only_left for j in laid.only_right)


def _fact_features(a: Parsed, b: Parsed) -> dict[str, float]:
    alone_a, alone_b = unmatched_quantities(a, b)
    hard = _telling(alone_a) + _telling(alone_b)
    lost = len(missing_literals(a, b)), len(missing_literals(b, a))
    return {
        "numbers_kept": float(_telling(a.quantities) > _telling(alone_a)),
        "numbers_lost": float(hard > 0),
        "numbers_both": float(bool(alone_a) and bool(alone_b)),
        "idle_lost": float(hard == 0 and bool(alone_a or alone_b)),
        "literals_kept": float(bool(a.literals & b.literals)),
        "literals_lost": float(max(lost) > 0),
        "marks": float(len((a.marks ^ b.marks) - {"concessive"})),
        "concessive": float("concessive" in a.marks ^ b.marks),
        "only_kept": float("only" in a.marks & b.marks),
    }


def _telling(quantities: Sequence[Quantity]) -> int:
    return sum(not x.idle for x in quantities)


def _shape_features(a: Parsed, b: Parsed, laid: Alignment) -> dict[str, float]:
    paired = {(m.left, m.right) for m in laid.matches if m.strength >= 1}
    proper_l = any(laid.left[i].proper for i in laid.only_left)
    proper_r = any(laid.right[j].proper for j in laid.only_right)
    negated = [any(x.sign < 0 for x in p.words) for p in (a, b)]
    removal = [any(x.soft < 0 for x in p.words) for p in (a, b)]
    ordered = [any(x.phase for x in p.words) for p in (a, b)]
    return {
        "head_kept": float((0, 0) in paired),
        "heads_lost": float(0 in laid.only_left and 0 in laid.only_right),
        "tail_lost": float(
            bool(laid.left and laid.right)
            and len(laid.left) - 1 in laid.only_left
            and len(laid.right) - 1 in laid.only_right
        ),
        "proper_one": float(proper_l != proper_r),
        "proper_both": float(proper_l and proper_r),
        "negated_one": float(negated[0] != negated[1]),
        "negated_both": float(all(negated)),
        "removal_one": float(removal[0] != removal[1]),
        "ordered_one": float(ordered[0] != ordered[1]),
        "ordered_both": float(all(ordered)),
        "run": math.log1p(max(_longest_run(laid.only_left), _longest_run(laid.only_right))),
    }


def _core_features(laid: Alignment) -> dict[str, float]:
    left = _core_cover(laid.left, {m.left: m.strength for m in laid.matches})
    right = _core_cover(laid.right, {m.right: m.strength for m in laid.matches})
    passive = [any(x.lemma in w.PASSIVE for x in side[:1]) for side in (laid.left, laid.right)]
    return {
        "core_low": min(left, right),
        "core_high": max(left, right),
        "passive_one": float(passive[0] != passive[1]),
        "inverted": _inversions(laid.matches),
        "roles": float(roles_crossed(laid)),
    }


def _core_cover(words: tuple[Word, ...], strengths: dict[int, float]) -> float:
    whole = sum(x.weight for x in words if x.core)
    return _ratio(sum(x.weight * strengths.get(i, 0.0) for i, x in enumerate(words) if x.core), whole)


def roles_crossed(laid: Alignment) -> bool:
    """ "from A to B" against "from B to A"."""
    turned = 0
    for match in laid.matches:
        roles = {laid.left[match.left].role, laid.right[match.right].role}
        turned += roles == {"from", "to"} or roles == {"over", "under"}
    return turned > 0


def _inversions(matches: tuple[Match, ...]) -> float:
    pairs = sorted((m.left, m.right) for m in matches)
    crossed = sum(x[1] > y[1] for i, x in enumerate(pairs) for y in pairs[i + 1 :])
    return _ratio(2 * crossed, len(pairs) * (len(pairs) - 1))


def _nearness(laid: Alignment) -> tuple[float, float]:
    """How near the leftover words of each side are to anything on the other, below the matching threshold too."""
    return (
        _mean([max((alike(laid.left[i].lemma, x.lemma) for x in laid.right), default=0) for i in laid.only_left]),
        _mean([max((alike(laid.right[j].lemma, x.lemma) for x in laid.left), default=0) for j in laid.only_right]),
    )


def _longest_run(indices: tuple[int, ...]) -> int:
    best = run = 0
    before = -2
    for index in indices:
        run = run + 1 if index == before + 1 else 1
        best, before = max(best, run), index
    return best


def _weight(words: tuple[Word, ...]) -> float:
    return sum(word.weight for word in words)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 1.0
