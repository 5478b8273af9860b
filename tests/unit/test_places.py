"""The places in flight: granted in order, given back exactly once."""

from __future__ import annotations

import asyncio

from coalq.inference.places import Place, Places


async def taken(places: Places, call: int = 1) -> Place:
    place = await places.take(call)
    assert place is not None
    return place


async def waiting(places: Places, call: int = 1) -> asyncio.Task[Place | None]:
    """A task that waits in the queue."""
    task = asyncio.create_task(places.take(call))
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_a_place_given_back_twice_counts_once() -> None:
    places = Places(2)
    first, second = await taken(places), await taken(places)

    with first:
        first.leave()
        first.leave()
        first.close()

    assert (places.in_flight, places.uncommitted) == (1, 1)
    second.close()
    assert (places.in_flight, places.uncommitted) == (0, 0)


async def test_a_place_handed_over_in_the_turn_in_which_its_waiter_is_cancelled_is_not_lost() -> None:
    places = Places(1)
    place = await taken(places)
    cancelled, next_in_line = await waiting(places), await waiting(places)

    place.close()
    cancelled.cancel()
    await asyncio.wait([cancelled])

    assert cancelled.cancelled()
    assert await next_in_line is not None
    assert places.in_flight == 1


async def test_a_waiter_cancelled_before_takes_no_place() -> None:
    places = Places(1)
    place = await taken(places)
    cancelled, next_in_line = await waiting(places), await waiting(places)

    cancelled.cancel()
    await asyncio.wait([cancelled])
    place.close()

    assert await next_in_line is not None
    assert places.in_flight == 1


async def test_the_oldest_call_is_served_first_and_within_it_whoever_asked_first() -> None:
    places, order = Places(1), list[str]()

    async def use(call: int, name: str) -> None:
        with await taken(places, call):
            order.append(name)
            await asyncio.sleep(0)

    first = await taken(places)
    users = [asyncio.create_task(use(call, name)) for call, name in [(3, "a"), (2, "b"), (3, "c"), (2, "d")]]
    await asyncio.sleep(0)
    first.close()
    await asyncio.gather(*users)

    assert order == ["b", "d", "a", "c"]


async def test_a_refused_call_is_sent_away_and_others_keep_their_turn() -> None:
    places = Places(1)
    place = await taken(places)
    refused, kept = await waiting(places, 1), await waiting(places, 2)

    places.refuse(1)

    assert await refused is None
    assert not kept.done()
    place.close()
    assert await kept is not None


async def test_places_left_but_not_committed_hold_back_new_ones_at_one_and_a_half_times_the_limit() -> None:
    places = Places(2)
    uncommitted = [await taken(places) for _ in range(2)]
    for place in uncommitted:
        place.leave()
    third = await taken(places)
    third.leave()

    fourth = await waiting(places)
    assert (places.in_flight, places.uncommitted) == (0, 3)
    uncommitted[0].close()

    assert await fourth is not None
