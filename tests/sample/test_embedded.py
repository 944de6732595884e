"""The embedded sampler: its log-probabilities are the trainer's, and nothing else of a call decides a completion."""

import asyncio
from dataclasses import replace

import pytest
import torch
import transformers

from rlcore.errors import ModelError
from rlcore.event_loop import wait_for
from rlcore.protocols import Request, Sampler, SamplingParams, Stop
from rlcore.sample.cache import ExtendLayout, PrefillLayout
from rlcore.sample.decoder import FusedDecoder, ModuleDecoder, decoder_for, decoding_of
from rlcore.sample.embedded import EmbeddedSampler, _Flight
from rlcore.sample.stops import StopText
from rlcore.train.model import pack
from tests.tiny import EOS, FAMILIES, byte_tokenizer, character_tokenizer, make_tiny

PLAIN = SamplingParams(max_new_tokens=12)
MIXED = (
    PLAIN,
    replace(PLAIN, temperature=0.7, top_p=0.8),
    replace(PLAIN, top_k=5, max_new_tokens=20),
    replace(PLAIN, temperature=1.3, min_p=0.1, stop=("a", "b7")),
    replace(PLAIN, greedy=True, ignore_eos=True),
    replace(PLAIN, top_k=20, top_p=0.9, min_p=0.02, stop_ids=(40, 41, 42)),
)


def requests_of(params=MIXED, members=3, prompt=6):
    """A group of `members` requests for each set of parameters, prompts of unequal length."""
    return [
        Request(tuple(range(5 + g, 5 + g + prompt + g)), p, seed=1000 * g + member, group=g)
        for g, p in enumerate(params)
        for member in range(members)
    ]


def trainer_logprobs(model, requests, completions):
    """Log-probabilities at the sampling temperature of every sampled token, by the packed path with shared prompts."""
    rows = [[*r.prompt, *c.tokens] for r, c in zip(requests, completions, strict=True)]
    packed = pack(
        torch.tensor([token for row in rows for token in row]),
        torch.tensor([len(row) for row in rows]),
        prompt_length=torch.tensor([len(r.prompt) for r in requests]),
        group=torch.tensor([r.group for r in requests]),
    )
    with torch.no_grad():
        logits = model.logits(model.hidden(packed)[packed.flat_index])
    parts = logits.split([len(row) for row in rows])
    found = []
    for request, completion, part in zip(requests, completions, parts, strict=True):
        scaled = (part[len(request.prompt) - 1 : -1] / request.params.temperature).log_softmax(-1)
        found.append(scaled.gather(1, torch.tensor(completion.tokens)[:, None])[:, 0])
    return found


def assert_agrees(model, requests, completions):
    for expected, c in zip(trainer_logprobs(model, requests, completions), completions, strict=True):
        assert len(c.tokens) == len(c.logprob) == len(c.kept_logmass)
        assert max(c.logprob) <= 0
        assert max(c.kept_logmass) <= 0
        found = torch.tensor(c.logprob) + torch.tensor(c.kept_logmass)
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_logprobs_are_the_trainers_whatever_the_batching(family, tied):
    model = make_tiny(family, tied=tied)
    requests = requests_of()
    wide = EmbeddedSampler(model).generate(requests)
    narrow = EmbeddedSampler(model, max_rows=4).generate(requests)
    assert_agrees(model, requests, wide)
    assert_agrees(model, requests, narrow)
    assert [c.tokens for c in wide] == [c.tokens for c in narrow]


def test_a_request_draws_the_same_alone_and_in_any_order():
    model = make_tiny()
    requests = requests_of()
    together = EmbeddedSampler(model).generate(requests)
    alone = [EmbeddedSampler(model, max_rows=1).generate([request])[0] for request in requests]
    backwards = EmbeddedSampler(model, max_rows=5).generate(requests[::-1])[::-1]
    assert [c.tokens for c in together] == [c.tokens for c in alone] == [c.tokens for c in backwards]
    assert len({tuple(c.tokens) for c in together}) > len(MIXED)


def test_waiting_requests_take_the_places_of_those_that_end(monkeypatch):
    model = make_tiny()
    lengths = [SamplingParams(max_new_tokens=1 + i % 7, ignore_eos=True) for i in range(20)]
    requests = [Request((5, 6, 7), params, seed=i, group=0) for i, params in enumerate(lengths)]
    taken = steps_taken(monkeypatch)
    completions = EmbeddedSampler(model, max_rows=4).generate(requests)
    assert [len(c.tokens) for c in completions] == [1 + i % 7 for i in range(20)]
    seen = [tokens for prompts, tokens in taken if not prompts]
    assert max(seen) <= 4
    # 20 requests need 57 tokens after their first ones: 3.1 rows a step on average, where 4 at a time would need 5 x 6.
    assert len(seen) <= 24


def steps_taken(monkeypatch):
    """A list to which each step of the fused decoder adds whether it computed prompts, and how many tokens."""
    taken, step = [], FusedDecoder.step

    def watched(self, tokens, position, layout):
        taken.append((isinstance(layout, PrefillLayout), len(tokens)))
        return step(self, tokens, position, layout)

    monkeypatch.setattr(FusedDecoder, "step", watched)
    return taken


def test_a_prompt_is_computed_once_for_its_group(monkeypatch):
    model, taken = make_tiny(), steps_taken(monkeypatch)
    # Groups lie interleaved, each as large as the rows in flight of the second call.
    groups = [Request((5 + g, 6, 7, 8), replace(PLAIN, ignore_eos=True), seed=g, group=g) for g in range(3)]
    requests = [replace(request, seed=10 * member + request.seed) for member in range(4) for request in groups]
    for rows, calls in ((128, [12]), (4, [4, 4, 4])):
        taken.clear()
        EmbeddedSampler(model, max_rows=rows).generate(requests)
        assert [tokens for prompts, tokens in taken if prompts] == calls


def test_the_fused_step_is_for_plain_layers_only():
    for family in FAMILIES:
        expected = FusedDecoder if family in ("qwen3", "qwen2", "llama") else ModuleDecoder
        assert type(decoder_for(make_tiny(family), "float32")) is expected
    model = make_tiny()
    projection = model.module.model.layers[0].self_attn.q_proj
    model.module.model.layers[0].self_attn.q_proj = torch.nn.Sequential(projection)
    assert type(decoder_for(model, "float32")) is ModuleDecoder


@pytest.mark.parametrize("family", ["qwen3", "qwen2", "llama"])
def test_the_fused_step_draws_what_the_modules_draw(family, monkeypatch):
    model = make_tiny(family)
    fused = EmbeddedSampler(model).generate(requests_of())
    monkeypatch.setattr("rlcore.sample.embedded.decoder_for", ModuleDecoder)
    assert [c.tokens for c in EmbeddedSampler(model).generate(requests_of())] == [c.tokens for c in fused]


@pytest.mark.parametrize("family", ["qwen3", "gemma2", "deepseek_v3"])
def test_bfloat16_stays_near_the_trainers_autocast(family):
    model = make_tiny(family, initializer_range=0.05)
    requests = requests_of((replace(PLAIN, ignore_eos=True),) * 4)
    completions = EmbeddedSampler(model, precision="bfloat16").generate(requests)
    with model.autocast("bfloat16"):
        expected = trainer_logprobs(model, requests, completions)
    difference = torch.cat(expected) - torch.tensor([x for c in completions for x in c.logprob])
    assert difference.abs().mean() < 0.01
    # Rounding may send a token to another expert.
    assert family == "deepseek_v3" or difference.abs().max() < 0.1


def test_a_sync_moves_nothing_and_the_next_call_sees_new_weights():
    model = make_tiny()
    sampler = EmbeddedSampler(model)
    sampler.update_weights(sampler.weights().items(), 3)
    assert isinstance(sampler, Sampler)
    requests = requests_of((PLAIN,))
    before = sampler.generate(requests)
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(1.3)
    sampler.update_weights(sampler.weights().items(), 4)
    after = sampler.generate(requests)
    assert {version for c in before for version in c.versions} == {3}
    assert {version for c in after for version in c.versions} == {4}
    assert [c.tokens for c in before] != [c.tokens for c in after]
    assert_agrees(model, requests, after)


def test_generate_of_transformers_is_never_called(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("generate was called")

    monkeypatch.setattr(transformers.GenerationMixin, "generate", refuse)
    for family in ("qwen3", "gemma2"):
        assert len(EmbeddedSampler(make_tiny(family)).generate(requests_of())) == 3 * len(MIXED)


def test_every_end_token_ends_and_is_kept():
    model = make_tiny()
    free = EmbeddedSampler(model).generate(requests_of((replace(PLAIN, ignore_eos=True),), members=8))
    assert {c.stop for c in free} == {Stop.LENGTH}
    assert {len(c.tokens) for c in free} == {12}
    second, third = free[0].tokens[1], free[1].tokens[2]
    model.eos_ids = (EOS, second, third)
    ended = EmbeddedSampler(model).generate(requests_of((PLAIN,), members=8))
    for whole, cut in zip(free, ended, strict=True):
        places = [i for i, token in enumerate(whole.tokens) if token in model.eos_ids]
        expected = whole.tokens[: places[0] + 1] if places else whole.tokens
        assert cut.tokens == expected
        assert cut.stop == (Stop.FINISHED if places else Stop.LENGTH)
    assert ended[0].stop == ended[1].stop == Stop.FINISHED


def test_an_end_token_at_the_last_place_is_finished_not_cut():
    model = make_tiny()
    free = EmbeddedSampler(model).generate(requests_of((replace(PLAIN, ignore_eos=True),)))[0]
    model.eos_ids = (free.tokens[3],)
    room = free.tokens.index(free.tokens[3]) + 1
    ended = EmbeddedSampler(model).generate(requests_of((replace(PLAIN, max_new_tokens=room),)))[0]
    assert ended.tokens == free.tokens[:room]
    assert ended.stop == Stop.FINISHED


def test_padding_equal_to_the_end_token_hides_no_token():
    model = make_tiny(tokenizer=character_tokenizer(pad_is_eos=True))
    assert model.tokenizer.pad_token_id == EOS
    params = replace(PLAIN, ignore_eos=True)
    requests = [Request((EOS, 5, EOS, EOS), params, seed=i) for i in range(16)]
    requests += [Request((5, 6) * (1 + i) + (EOS,), params, seed=i, group=1 + i) for i in range(4)]
    completions = EmbeddedSampler(model).generate(requests)
    assert {len(c.tokens) for c in completions} == {12}
    assert any(EOS in c.tokens for c in completions)
    assert_agrees(model, requests, completions)


def test_stop_ids_end_and_are_kept():
    model = make_tiny()
    free = EmbeddedSampler(model).generate(requests_of((replace(PLAIN, ignore_eos=True),)))[0]
    stop = free.tokens[4]
    params = replace(PLAIN, ignore_eos=True, stop_ids=(stop,))
    ended = EmbeddedSampler(model).generate(requests_of((params,)))[0]
    assert ended.tokens == free.tokens[: free.tokens.index(stop) + 1]
    assert ended.stop == Stop.FINISHED


@pytest.mark.parametrize("tokenizer", [character_tokenizer, byte_tokenizer])
def test_a_stop_string_split_over_tokens_ends_at_its_last_one(tokenizer):
    model = make_tiny(tokenizer=tokenizer())
    params = replace(PLAIN, ignore_eos=True, max_new_tokens=40)
    requests = requests_of((params,), members=6)
    free = EmbeddedSampler(model).generate(requests)
    # Random bytes are seldom text: take the first three tokens in a row that are, past the beginning.
    spans = ((row, end) for row, c in enumerate(free) for end in range(8, 40))
    texts = ((row, end, model.tokenizer.decode(free[row].tokens[end - 3 : end])) for row, end in spans)
    row, end, text = next(x for x in texts if x[2].isprintable() and x[2].isascii() and len(x[2]) == 3)
    stops = (text, "never drawn")
    ended = EmbeddedSampler(model).generate([replace(r, params=replace(params, stop=stops)) for r in requests])
    assert ended[row].tokens == free[row].tokens[:end]
    assert ended[row].stop == Stop.FINISHED
    others = [i for i in range(len(free)) if i != row]
    assert [ended[i].tokens for i in others] == [free[i].tokens for i in others]


def test_truncation_reports_the_mass_that_it_kept():
    model = make_tiny()
    prompt = (5, 6, 7)
    with torch.no_grad():
        packed = pack(torch.tensor(prompt), torch.tensor([3]))
        p = (model.logits(model.hidden(packed))[-1] / 0.9).softmax(-1)
    order = p.argsort(descending=True)
    kept = int((p[order].cumsum(0) - p[order] < 0.6).sum())
    mass = p[order[:kept]].sum()
    params = SamplingParams(max_new_tokens=1, temperature=0.9, top_p=0.6)
    completions = EmbeddedSampler(model).generate([Request(prompt, params, seed=i) for i in range(400)])
    drawn = torch.tensor([c.tokens[0] for c in completions])
    assert set(drawn.tolist()) == set(order[:kept].tolist())
    for c in completions:
        assert c.kept_logmass[0] == pytest.approx(float(mass.log()), abs=1e-5)
        assert c.logprob[0] == pytest.approx(float((p[c.tokens[0]] / mass).log()), abs=1e-4)


@pytest.mark.parametrize(
    ("prompt", "change", "message"),
    [
        ((), {}, "no tokens"),
        ((5, 85), {}, "id 85 of prompt is outside the vocabulary, 0 to 84"),
        ((-1,), {}, "id -1 of prompt"),
        ((5,), {"stop_ids": (99,)}, "id 99 of stop_ids"),
        ((5,) * 250, {}, r"250 prompt tokens \+ max_new_tokens 12 = 262 passes the model's 256 positions"),
        ((5,), {"max_new_tokens": 0}, "max_new_tokens is 0"),
        ((5,), {"temperature": 0.0}, "temperature is 0.0.*greedy=True"),
        ((5,), {"top_p": 0.0}, "top_p is 0.0"),
        ((5,), {"min_p": 1.5}, "min_p is 1.5"),
        ((5,), {"stop": ("",)}, "stop is"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused_before_anything_runs(prompt, change, message, monkeypatch):
    model = make_tiny()
    monkeypatch.setattr(FusedDecoder, "step", lambda *_: pytest.fail("the model ran"))
    good = Request((5, 6), PLAIN, seed=0)
    with pytest.raises(ModelError, match=f"request of group 0: .*{message}"):
        EmbeddedSampler(model).generate([good, Request(prompt, replace(PLAIN, **change), seed=0)])


def test_rows_in_flight_are_bounded_by_the_memory_for_keys_and_values():
    model = make_tiny()
    requests = requests_of((PLAIN,) * 5)
    assert EmbeddedSampler(model, max_rows=8).rows_in_flight(requests) == 8
    # 3 layers x 2 x 2 heads x 16 x 4 bytes = 768 bytes a token; the longest request may reach 22 of them.
    assert EmbeddedSampler(model, cache_gib=3.5 * 22 * 768 / 2**30).rows_in_flight(requests) == 3
    assert EmbeddedSampler(model, cache_gib=1e-9).rows_in_flight(requests) == 1
    assert EmbeddedSampler(model).generate([]) == []


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(ModelError, match="precision 'float16'"):
        EmbeddedSampler(make_tiny(), precision="float16")
    with pytest.raises(ModelError, match="max_rows is 0"):
        EmbeddedSampler(make_tiny(), max_rows=0)


# -- sessions of several turns


def turns_of(model, *, sessions=5, turns=3, named=True, change=None, **options):
    """The requests and completions of sessions whose next prompt is all that was said, and what was added to it."""
    sampler = EmbeddedSampler(model, **options)
    asked, drawn = [], []

    async def session(number):
        prompt = tuple(range(5 + number, 12 + 2 * number))
        for turn in range(turns):
            params = replace(PLAIN, ignore_eos=True, stop=() if turn + 1 == turns else ("x",))
            request = Request(prompt, params, 100 * number + turn, number, session=str(number) if named else "")
            completion = await sampler.sample(request)
            asked.append(request)
            drawn.append(completion)
            prompt = (*prompt, *completion.tokens, 40 + turn, 41 + number)
            if change is not None and turn == 0:
                await asyncio.sleep(0.05)
                change(sampler)

    async def together():
        await asyncio.gather(*(session(number) for number in range(sessions)))

    wait_for(together())
    return sampler, asked, drawn


@pytest.fixture
def short_turns(monkeypatch):
    """Stop strings come after three to six tokens."""
    monkeypatch.setattr(StopText, "completed", lambda self, stops, tokens: len(tokens) >= 3 + tokens[0] % 4)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_kept_prefix_gives_what_a_recomputed_one_gives(family, fused, short_turns, monkeypatch):
    if not fused:
        monkeypatch.setattr("rlcore.sample.decoder._has_bare_projections", lambda model: False)
    model = make_tiny(family)
    decoding_of(model)  # its proof, the first time, extends rows too
    extended = []
    plain = ExtendLayout.__init__
    monkeypatch.setattr(ExtendLayout, "__init__", lambda self, *a: (extended.append(len(a[2])), plain(self, *a))[1])
    _, asked, kept = turns_of(model)
    assert sum(extended) == 10, "the second and third turns of five sessions"
    assert_agrees(model, asked, kept)
    _, again, recomputed = turns_of(model, named=False)
    assert sum(extended) == 10
    by_request = {(r.group, len(r.prompt)): c.tokens for r, c in zip(again, recomputed, strict=True)}
    assert by_request == {(r.group, len(r.prompt)): c.tokens for r, c in zip(asked, kept, strict=True)}


def test_a_prefix_of_older_weights_is_not_used(short_turns):
    model = make_tiny()

    def change(sampler):
        if sampler.version == 0:
            with torch.no_grad():
                for parameter in model.module.parameters():
                    parameter.mul_(1.1)
            sampler.update_weights(sampler.weights().items(), 1)

    _, asked, drawn = turns_of(model, sessions=1, change=change)
    assert [set(c.versions) for c in drawn] == [{0}, {1}, {1}]
    assert_agrees(model, asked[1:], drawn[1:])


def test_prefixes_are_kept_as_far_as_there_is_room_and_gone_when_the_work_is(short_turns, monkeypatch):
    model, kept = make_tiny(), []
    keep = _Flight._keep
    monkeypatch.setattr(_Flight, "_keep", lambda self, slot: (keep(self, slot), kept.append(self.kept_tokens)))
    # 3 layers x 2 x 2 heads x 16 x 4 bytes = 768 bytes a token, of which half of the room is for what is kept.
    sampler, asked, drawn = turns_of(model, cache_gib=2 * 768 * 60 / 2**30, max_rows=2)
    assert max(kept) <= 60
    assert_agrees(model, asked, drawn)
    wait_for(sampler.pause())
    assert sampler._flight is None
