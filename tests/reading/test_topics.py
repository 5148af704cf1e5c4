"""What work a text is about, in eight languages."""

from __future__ import annotations

import pytest

from alma.reading.topics import BROAD, find_topics


@pytest.mark.parametrize(
    "text",
    [
        "Use pnpm.",
        "update the packages",
        "installiere die Bibliothek neu",
        "instala las dependencias",
        "mets à jour les dépendances",
        "atualize os pacotes",
        "обнови зависимости",
        "安装这个库",
        "ライブラリを更新して",
    ],
)
def test_a_topic_is_recognised_in_every_language(text: str) -> None:
    assert "dependencies" in find_topics(text)


def test_words_in_a_row_count_together() -> None:
    assert "flags" in find_topics("Put it behind a feature flag")
    assert "flags" not in find_topics("a feature for the red cross")


def test_accents_and_case_do_not_count() -> None:
    assert find_topics("ÜBERSETZUNGEN") == find_topics("ubersetzungen") == {"translation": 1.0}


def test_what_many_tasks_are_about_tells_less() -> None:
    assert find_topics("look into the database")["database"] == BROAD


@pytest.mark.parametrize("text", ["", "yes, go on", "mach weiter", "继续", "looks good, thanks", "why did that fail?"])
def test_a_follow_up_is_about_nothing(text: str) -> None:
    assert find_topics(text) == {}
