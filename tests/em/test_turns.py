"""Who gets the cores of a process next."""

from __future__ import annotations

import threading
import time

from vmfa_dask.runtime.threads import Cores, _turns

SECONDS = 20.0


def wait_until_waiting(n: int) -> None:
    """Until `n` threads wait for their turn."""
    end = time.monotonic() + SECONDS
    while len(_turns._changed._waiters) < n:  # type: ignore[attr-defined]
        assert time.monotonic() < end
        time.sleep(0.001)


def test_tasks_in_a_hurry_go_first() -> None:
    cores, order = Cores(1), []

    def work(name: str, hurry: bool) -> None:
        with cores.exclusive(hurry=hurry):
            order.append(name)

    threads = [threading.Thread(target=work, args=(f"usual {k}", False)) for k in range(4)]
    threads += [threading.Thread(target=work, args=(f"hurried {k}", True)) for k in range(3)]
    with cores.exclusive():
        for number, thread in enumerate(threads):
            thread.start()
            wait_until_waiting(number + 1)
    for thread in threads:
        thread.join(SECONDS)
    assert sorted(order[:3]) == ["hurried 0", "hurried 1", "hurried 2"]
    assert len(order) == 7


def test_whoever_gives_up_leaves_the_cores_to_others() -> None:
    class GoElsewhere(Exception):
        pass

    def leave() -> None:
        raise GoElsewhere

    left, done = [], []

    def wait(hurry: bool) -> None:
        try:
            with Cores(1, while_waiting=leave).exclusive(hurry=hurry):
                done.append(hurry)
        except GoElsewhere:
            left.append(hurry)

    threads = [threading.Thread(target=wait, args=(hurry,)) for hurry in (True, False)]
    with Cores(1).exclusive():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
    assert sorted(left) == [False, True]
    assert done == []
    with Cores(1).exclusive():  # nobody who has left is waited for
        pass
