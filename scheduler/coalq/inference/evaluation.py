"""What happens to one job: found, shared with an equal job, or claimed, generated and committed.

A job goes: hot store → an equal job of this process that is under way (if duplicates are shared) → a place in flight →
its claim → generate → give the place back → commit the record → tell the equal jobs → release the claim.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from coalq.claim import Held, Stored
from coalq.errors import HandBack, LeaseLost, PermanentError
from coalq.generation import Generation
from coalq.inference.call import Call
from coalq.inference.jobs import CoalitionJob, CoalitionRecord, CoalitionRecordDraft, describe_error
from coalq.inference.leads import Committed, GivenBack, HeldElsewhere, Lead, LeadEnd, Rejected, Vacant
from coalq.inference.places import Place, Places
from coalq.inference.ports import DedupRegistry, GenerateFn, RecordArchive, ResultStore
from coalq.outcome import Outcome


class Evaluator:
    """Takes jobs of any call to their end, which is exactly one of: recorded, set aside, handed back, an error raised.

    Args:
        places: Shared by all calls.
        store: Recent generations.
        dedup: Who may generate a key; None if equal jobs are not shared.
        archive: Where records go; None if they are only counted.
        on_recorded: Called after each record.
    """

    def __init__(
        self,
        places: Places,
        *,
        store: ResultStore,
        dedup: DedupRegistry | None,
        archive: RecordArchive | None,
        on_recorded: Callable[[], None],
    ) -> None:
        self._places = places
        self._store = store
        self._dedup = dedup
        self._archive = archive
        self._on_recorded = on_recorded
        self._leads: dict[str, Lead] = {}

    async def process(self, call: Call, job: CoalitionJob, generate: GenerateFn) -> None:
        """Take one job to its end.

        Raises:
            HandBack: The job has no record and is to be handed back.
            Exception: A fault of the archive, the claims or the store. A fault of `generate` is recorded instead.
        """
        key = job.coalition_key
        while not call.is_stopped:
            stored = self._store.get(key)
            if stored is not None:
                await self._record(call, CoalitionRecordDraft(job, Outcome.CACHE_HIT, stored))
            elif self._dedup is None:
                await self._generate_unclaimed(call, job, generate)
            elif call.is_aside(key):
                call.set_aside(job)
            elif (lead := self._leads.get(key)) is None:
                await self._lead(call, job, generate, self._dedup)
            elif not await self._follow(call, job, lead):
                continue
            return
        call.hand_back()

    async def _follow(self, call: Call, job: CoalitionJob, lead: Lead) -> bool:
        """Share how the lead ended; False if the job has to try itself."""
        match await call.wait_for(lead):
            case Committed(generation):
                await self._record(call, CoalitionRecordDraft(job, Outcome.DEDUPLICATED, generation))
            case Rejected(error, only_call) if only_call in {None, call.number}:
                await self._record(call, CoalitionRecordDraft(job, Outcome.FAILED, error=error))
            case HeldElsewhere():
                call.set_aside(job)
            case GivenBack():
                call.hand_back()
            case _:
                return False
        return True

    async def _lead(self, call: Call, job: CoalitionJob, generate: GenerateFn, dedup: DedupRegistry) -> None:
        key = job.coalition_key
        lead = self._leads[key] = Lead()
        end: LeadEnd = Vacant()
        try:
            end = await self._claim(call, job, generate, dedup)
        except LeaseLost:
            # Only this job's group is lost; equal jobs of other groups try themselves.
            raise
        except HandBack:
            end = GivenBack()
            raise
        finally:
            # Whatever happened, also a cancellation: nobody may go on waiting for a lead that is gone.
            del self._leads[key]
            lead.end.set_result(end)

    async def _claim(self, call: Call, job: CoalitionJob, generate: GenerateFn, dedup: DedupRegistry) -> LeadEnd:
        place = await self._places.take(call.number)
        if place is None:
            call.hand_back()
            return Vacant()
        with place:
            match await dedup.claim(job.coalition_key):
                case Stored(generation):
                    place.close()
                    self._store.put(job.coalition_key, generation)
                    await self._record(call, CoalitionRecordDraft(job, Outcome.CACHE_HIT, generation))
                    return Committed(generation)
                case Held():
                    call.set_aside(job)
                    return HeldElsewhere()
            end: LeadEnd = Vacant()
            try:
                end = await self._generate(call, job, generate, place)
            finally:
                dedup.release(job.coalition_key, end.generation if isinstance(end, Committed) else None)
            return end

    async def _generate_unclaimed(self, call: Call, job: CoalitionJob, generate: GenerateFn) -> None:
        place = await self._places.take(call.number)
        if place is None:
            call.hand_back()
            return
        with place:
            await self._generate(call, job, generate, place)

    async def _generate(self, call: Call, job: CoalitionJob, generate: GenerateFn, place: Place) -> LeadEnd:
        if call.is_stopped:
            call.hand_back()
            return Vacant()
        error: Exception | None = None
        try:
            draft = CoalitionRecordDraft(job, Outcome.EXECUTED, await _ask(generate, job))
        except HandBack:
            raise
        except Exception as raised:  # noqa: BLE001 - whatever the model's client raises fails this job and no other
            error = raised
            draft = CoalitionRecordDraft(job, Outcome.FAILED, error=describe_error(raised))
        finally:
            place.leave()
        record = await self._record(call, draft)
        if record.generation is not None:
            self._store.put(job.coalition_key, record.generation)
            return Committed(record.generation)
        if error is None:
            # The generation is good, its utility is not: that holds for this call's value function only.
            return Rejected(record.error or "", only_call=call.number)
        return Rejected(record.error or "") if isinstance(error, PermanentError) else Vacant()

    async def _record(self, call: Call, draft: CoalitionRecordDraft) -> CoalitionRecord:
        if self._archive is not None:
            record = await self._archive.append(draft)
        else:
            record = CoalitionRecord.of(draft.job, draft.outcome, generation=draft.generation, error=draft.error)
        call.count(record)
        self._on_recorded()
        return record


async def _ask(generate: GenerateFn, job: CoalitionJob) -> Generation:
    """Generate once, and time it if the backend has not: waiting for a place or for the archive is not in it."""
    started = time.perf_counter()
    answer = await generate(job.snapshot)
    elapsed_ms = (time.perf_counter() - started) * 1000.0
    if isinstance(answer, str):
        return Generation(text=answer, elapsed_ms=elapsed_ms)
    if not isinstance(answer, Generation):
        raise TypeError(f"generate must return text or a Generation, not {type(answer).__name__}")
    return answer if answer.elapsed_ms else replace(answer, elapsed_ms=elapsed_ms)
