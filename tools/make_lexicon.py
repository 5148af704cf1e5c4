"""Build the lexicon from WordNet and the embedder's word vectors.

    python tools/make_lexicon.py --wordnet DIR --vocab vocab.txt --vectors vectors.npz --out lexicon.txt.gz

DIR holds WordNet 3.0's data.*, index.*, *.exc and cntlist.rev (Debian: wordnet-base). vocab.txt is the word-piece
vocabulary of the embedder: general English ordered by frequency, used only to choose which words are common.
The words' vectors are computed once with the local embedder and kept in --vectors.

Each line of the lexicon is `word<TAB>relations`; a relation is one letter and a word:
s same synset, d derived from one another, h one is a kind of the other, a antonym, n near in vector space only,
c near in vector space but two kinds of one thing ("Monday", "Tuesday"): alternatives, not synonyms.
Only vectors can tell which of the many WordNet synonyms are meant in ordinary prose, so a digit (cosine * 10)
follows the letter. A line `=form<TAB>lemma` names an irregular form.
"""

from __future__ import annotations

import argparse
import gzip
from collections import defaultdict
from pathlib import Path

import numpy as np

POS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
PARTICLES = {"up", "down", "in", "out", "on", "off", "over", "back", "away", "through", "forward", "of"}
CALENDAR = set(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august"
    " september october november december".split()
)
NEAR = 0.62
NEIGHBOURS = 8
MAX_SENSE = {"n": 5, "v": 8, "a": 5, "r": 4}
WEAKEST = {"a": 0, "d": 0, "s": 2, "h": 4, "n": 6, "c": 0}  # a relation of a rare sense misleads more than it helps
STRENGTH = {"a": 5, "s": 4, "d": 3, "h": 2, "n": 1, "c": 1}

Relations = dict[tuple[str, str], str]


def synset_lines(folder: Path, pos: str) -> list[list[str]]:
    lines = (folder / f"data.{pos}").read_text().splitlines()
    return [line.split(" | ")[0].split() for line in lines if not line.startswith("  ")]


def words_of(fields: list[str]) -> list[str]:
    count = int(fields[3], 16)
    return [_plain(fields[4 + 2 * i].split("(")[0]) for i in range(count)]


def _plain(word: str) -> str:
    """A name ("Locke", "Chang") would only catch the forms of ordinary words: it is spoilt here."""
    return word.lower() if word.islower() or word.lower() in CALENDAR else "*"


def pointers_of(fields: list[str]) -> list[tuple[str, str, str, str]]:
    start = 4 + 2 * int(fields[3], 16)
    count = int(fields[start])
    rest = fields[start + 1 : start + 1 + 4 * count]
    return [(rest[i], rest[i + 1], rest[i + 2], rest[i + 3]) for i in range(0, len(rest), 4)]


def sense_ranks(folder: Path) -> dict[tuple[str, str, str], int]:
    """How many senses of the word are more usual than this one, by (word, part of speech, synset)."""
    ranks: dict[tuple[str, str, str], int] = {}
    for pos, letter in POS.items():
        for line in (folder / f"index.{pos}").read_text().splitlines():
            if line.startswith("  "):
                continue
            fields = line.split()
            offsets = fields[-int(fields[2]) :]
            for rank, offset in enumerate(offsets):
                ranks[fields[0], letter, offset] = rank
    return ranks


def usual_words(folder: Path, vocab: Path) -> set[str]:
    common = {w for w in vocab.read_text().split("\n") if w.isascii() and w.isalpha() and len(w) > 1}
    tagged = {line.split("%")[0] for line in (folder / "cntlist.rev").read_text().splitlines()}
    return {w for w in common | tagged if w.isalpha() or particle_verb(w)}


def particle_verb(word: str) -> bool:
    verb, _, rest = word.partition("_")
    return verb.isalpha() and rest in PARTICLES


Parents = dict[str, set[str]]


def read_wordnet(folder: Path, usual: set[str]) -> tuple[set[str], Relations, Parents]:
    ranks = sense_ranks(folder)
    synsets = {}
    for pos, letter in POS.items():
        for fields in synset_lines(folder, pos):
            synsets[letter, fields[0]] = (words_of(fields), pointers_of(fields))
    known = {w for words, _ in synsets.values() for w in words}
    known = {w for w in known if w in usual or particle_verb(w)}
    found: Relations = {}
    parents: Parents = defaultdict(set)

    def relate(kind: str, left: str, right: str) -> None:
        if left == right or left not in known or right not in known:
            return
        for pair in ((left, right), (right, left)):
            if STRENGTH[kind] > STRENGTH.get(found.get(pair, ""), 0):
                found[pair] = kind

    def usual_sense(word: str, letter: str, offset: str) -> bool:
        return ranks.get((word, letter, offset), 99) < MAX_SENSE[letter]

    for (letter, offset), (words, pointers) in synsets.items():
        here = [w for w in words if usual_sense(w, letter, offset)]
        for left in here:
            for right in here:
                relate("s", left, right)
        for symbol, target, pos, which in pointers:
            pos = "a" if pos == "s" else pos
            there, _ = synsets[pos, target]
            source, dest = int(which[:2], 16), int(which[2:], 16)
            if symbol == "!":
                relate("a", words[source - 1], there[dest - 1])
            elif symbol == "+":
                relate("d", words[source - 1], there[dest - 1])
            elif symbol in ("@", "&"):
                for left in here:
                    if symbol == "@" and ranks.get((left, letter, offset), 99) < 2:
                        parents[left].add(pos + target)
                    for right in there:
                        if usual_sense(right, pos, target):
                            relate("h", left, right)
    return known, found, parents


def irregular_forms(folder: Path, known: set[str]) -> dict[str, str]:
    verbs = {line.split()[0] for line in (folder / "index.verb").read_text().splitlines() if line[:2] != "  "}
    forms: dict[str, str] = {}
    for pos in ("verb", "noun", "adj"):
        # "kept" is keep although it is an adjective too; "found" and "offer" are words of their own.
        taken = verbs if pos == "verb" else known
        for line in (folder / f"{pos}.exc").read_text().splitlines():
            form, lemma = line.split()[:2]
            if lemma in known and form.isalpha() and form not in taken:
                forms.setdefault(form, lemma)
    return forms


def vectors(words: list[str], cache: Path) -> np.ndarray:
    if cache.exists():
        stored = np.load(cache)
        if list(stored["words"]) == words:
            return np.asarray(stored["vectors"], dtype=np.float32)
    from alma.embedders.local import LocalEmbedder  # the tool's own import: the package never needs it

    coded = LocalEmbedder().embed([w.replace("_", " ") for w in words])
    matrix = np.stack([np.frombuffer(bytes(v), dtype=np.int8) for v in coded]).astype(np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    np.savez_compressed(cache, words=np.array(words), vectors=matrix.astype(np.float16))
    return matrix


def add_neighbours(words: list[str], matrix: np.ndarray, found: Relations, parents: Parents) -> None:
    for start in range(0, len(words), 512):
        block = matrix[start : start + 512] @ matrix.T
        for row in range(block.shape[0]):
            word = words[start + row]
            block[row, start + row] = 0
            for column in np.argsort(-block[row])[:NEIGHBOURS]:
                if block[row, column] >= NEAR:
                    other = words[column]
                    kind = "c" if parents[word] & parents[other] else "n"
                    found.setdefault((word, other), kind)
                    found.setdefault((other, word), kind)


def lines_of(words: list[str], matrix: np.ndarray, found: Relations, forms: dict[str, str]) -> list[str]:
    place = {w: i for i, w in enumerate(words)}
    by_word: dict[str, list[str]] = defaultdict(list)
    for (left, right), kind in sorted(found.items()):
        cosine = float(matrix[place[left]] @ matrix[place[right]])
        digit = min(9, max(0, int(cosine * 10)))
        if digit >= WEAKEST[kind]:
            by_word[left].append(f"{kind}{digit}{right}")
    out = [f"{w}\t{' '.join(by_word[w])}" for w in words]
    return out + [f"={form}\t{lemma}" for form, lemma in sorted(forms.items())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wordnet", type=Path, required=True)
    parser.add_argument("--vocab", type=Path, required=True)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--list-words", action="store_true", help="print the words and stop")
    options = parser.parse_args()
    usual = usual_words(options.wordnet, options.vocab)
    known, found, parents = read_wordnet(options.wordnet, usual)
    words = sorted(known)
    if options.list_words:
        print("\n".join(words))
        return
    matrix = vectors(words, options.vectors)
    add_neighbours(words, matrix, found, parents)
    text = "\n".join(lines_of(words, matrix, found, irregular_forms(options.wordnet, known))) + "\n"
    options.out.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{len(words)} words, {len(found)} relations, {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
