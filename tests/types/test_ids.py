from __future__ import annotations

import threading
import time

from alma.types.record import new_id


def test_ids_are_unique_and_sort_by_the_moment_they_were_made() -> None:
    made = [new_id("out") for _ in range(5000)]
    assert made == sorted(made)
    assert len(set(made)) == 5000
    assert {len(one) for one in made} == {30}
    time.sleep(0.002)
    assert new_id("out") > made[-1]


def test_threads_never_make_the_same_id() -> None:
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.extend(new_id("x") for _ in range(500))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 4000
