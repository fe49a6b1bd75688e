"""The model in examples/llama agrees with plain torch: from files of each layout, quantised, in batches of different lengths, and in what it samples."""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from examples.llama import __main__ as command
from examples.llama import kernels
from examples.llama.config import Config, read_config
from examples.llama.model import Cache, Model, choose
from examples.llama.peer import Plain
from examples.llama.weights import EMBEDDING, HEAD, Weights, quantised, random_weights, read_weights

pytestmark = pytest.mark.torch
FOLDER = Path(__file__).parents[1] / "examples" / "llama"
SMALL = Config(hidden=64, layers=2, heads=4, kv_heads=2, head_dim=16, inner=96, vocabulary=67, eps=1e-6, positions=160)
LLAMA = {"model_type": "llama", "tie_word_embeddings": False}
QWEN2 = {"model_type": "qwen2", "tie_word_embeddings": True, "rope_theta": 1e6, "eos_token_id": [3, 5]}
QWEN3 = {"model_type": "qwen3", "tie_word_embeddings": False, "head_dim": 24, "rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}}
LAYOUTS = {
    "llama": (LLAMA, SMALL),
    "qwen2": (QWEN2, replace(SMALL, tied=True, bias=True, theta=1e6, ends=(3, 5))),
    "qwen3": (QWEN3, replace(SMALL, head_norms=True, head_dim=24, theta=5e5)),
}
PROMPTS = (17, 1, 70)


def write(folder: Path, layout: dict[str, Any], weights: Weights, files: int) -> None:
    """A folder as a hub has it: one file, or several and their index."""
    config = {
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 67,
        "rms_norm_eps": 1e-6, "max_position_embeddings": 160, "hidden_act": "silu", **layout,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if files == 1:
        save_file(weights, folder / "model.safetensors")
        return
    places = {name: f"model-{number % files + 1:05}-of-{files:05}.safetensors" for number, name in enumerate(weights)}
    for file in sorted(set(places.values())):
        save_file({name: weights[name] for name, place in places.items() if place == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}), encoding="utf-8")


def prompts(lengths: Sequence[int] = PROMPTS, seed: int = 3) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, SMALL.vocabulary, n).tolist() for n in lengths]


def restored(weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """The matrix that a quantised one stands for, in float32."""
    if weight.dtype == torch.bfloat16:
        return weight.float()
    if weight.dtype == torch.uint8:
        weight = weight.reshape(scale.shape[0] // 2, scale.shape[1], -1).transpose(0, 1).flatten(1)
    whole = weight.float() if weight.dtype == torch.int8 else torch.cat([weight & 15, weight >> 4], 1).float() - 8
    return (whole.reshape(len(whole), scale.shape[0], -1) * scale.T[:, :, None]).reshape(whole.shape)


def compare(model: Model, weights: Weights, decode: int) -> None:
    """Prompts, single tokens, then prompts again that go on from there: as near to float64 as torch in BF16 is, with a little room."""
    requests, room = len(PROMPTS), 160
    cache = Cache(model.config, requests, room, page=16)
    exact, rough = (Plain(model.config, weights, requests, room, dtype) for dtype in (torch.float64, torch.bfloat16))
    fresh = prompts()
    for step in range(decode + 2):
        ours, right, near = model.step(cache, fresh).double(), exact.step(fresh), rough.step(fresh).double()
        assert (ours - right).norm() <= 1.5 * (near - right).norm(), step
        assert (ours - right).norm() <= 0.02 * right.norm(), step
        fresh = [[int(token)] for token in right.argmax(1)] if step < decode else prompts((3, 20, 1), seed=step)


@pytest.mark.parametrize("name", LAYOUTS)
def test_prefill_and_decode_steps_agree_with_torch_from_files(name: str, tmp_path: Path) -> None:
    layout, config = LAYOUTS[name]
    weights = random_weights(config, seed=1)
    write(tmp_path, layout, weights, files=1 if name == "llama" else 3)
    assert read_config(tmp_path) == config
    compare(Model(config, read_weights(tmp_path, config)), weights, decode=6 if name == "qwen3" else 32)


@pytest.mark.parametrize("bits", [8, 4])
def test_quantised_weights_agree_with_torch_on_what_they_stand_for(bits: int) -> None:
    config = LAYOUTS["qwen2"][1]
    weights = random_weights(config, seed=2)
    meant = {name: restored(*quantised(weight, bits)) if "_proj.weight" in name else weight for name, weight in weights.items()}
    meant[HEAD] = restored(*quantised(weights[EMBEDDING], bits))
    compare(Model(config, weights, bits), meant, decode=3)


@pytest.mark.parametrize(("bits", "top"), [(8, 127), (4, 7)])
def test_a_restored_weight_is_within_half_a_step_of_the_weight(bits: int, top: int) -> None:
    weight = torch.randn(6, 256, generator=torch.Generator().manual_seed(0)).bfloat16()
    stored, scale = quantised(weight, bits)
    assert stored.numel() * stored.element_size() == weight.numel() * bits // 8
    parts = (restored(stored, scale) - weight.float()).reshape(6, scale.shape[0], -1)
    assert bool((parts.abs() <= scale.T[:, :, None] * 0.501).all())
    assert torch.allclose(scale[0, 0], weight[0, : 256 // scale.shape[0]].float().abs().max() / top)


def test_any_number_of_tokens_and_requests_is_one_compiled_kernel() -> None:
    model = Model(SMALL, random_weights(SMALL))
    every = (kernels.take, kernels.project, kernels.attend, kernels.finish, kernels.head)
    before: list[int] = []
    for lengths in (PROMPTS, (1, 1), (5,), (33, 90), (2, 2, 2, 2), (1, 1, 1)):
        model.step(Cache(SMALL, len(lengths), 100, page=16), prompts(lengths))
        if lengths == (1, 1):  # single tokens have an attention of their own
            before = [len(kernel._cache) for kernel in every]
    assert [len(kernel._cache) for kernel in every] == before


@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("temperature", [0.5, 1.7])
def test_top_p_draws_as_the_formula_with_a_sort_does(top_p: float, temperature: float) -> None:
    logits = np.random.default_rng(int(top_p * 100)).standard_normal((5, 301)).astype(np.float32) * 3
    for seed in range(4):
        noise = torch.rand(logits.shape, generator=torch.Generator().manual_seed(seed)).clamp(1e-7, 1 - 1e-7).numpy().astype(np.float64)
        score = logits.astype(np.float64) / temperature
        chance = np.exp(score - score.max(1, keepdims=True))
        chance /= chance.sum(1, keepdims=True)
        order = np.argsort(-chance, axis=1)
        ordered = np.take_along_axis(chance, order, 1)
        kept = np.zeros(logits.shape, bool)
        np.put_along_axis(kept, order, np.cumsum(ordered, 1) - ordered < top_p, 1)
        expected = np.where(kept, score - np.log(-np.log(noise)), -np.inf).argmax(1)
        assert choose(torch.from_numpy(logits), temperature, top_p, torch.Generator().manual_seed(seed)) == expected.tolist()
    assert choose(torch.from_numpy(logits), 0.0, top_p, torch.Generator()) == logits.argmax(1).tolist()


def test_frequencies_are_stretched_as_in_llama_3(tmp_path: Path) -> None:
    rope = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 100}
    write(tmp_path, {**LLAMA, "rope_scaling": rope}, {"none": torch.zeros(1)}, files=1)
    _, sin = read_config(tmp_path).rotary()
    for i in range(8):
        frequency = 10000.0 ** (-i / 8)
        turns = 100 * frequency / (2 * np.pi)
        blend = (turns - 1) / 3
        expected = frequency if turns > 4 else frequency / 8 if turns < 1 else (1 - blend) * frequency / 8 + blend * frequency
        assert np.isclose(sin[1, i], np.sin(expected), rtol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"model_type": "gpt2"}, "model_type 'gpt2'; known are"),
        ({"rope_scaling": {"type": "yarn"}}, "rotary scaling 'yarn'"),
        ({"model_type": "mistral", "sliding_window": 4096}, "attention windows"),
        ({"hidden_act": "gelu"}, "activations other than silu"),
    ],
)
def test_a_model_that_would_come_out_wrong_is_refused(wrong: dict[str, Any], message: str, tmp_path: Path) -> None:
    write(tmp_path, {**LLAMA, **wrong}, {"none": torch.zeros(1)}, files=1)
    with pytest.raises(ValueError, match=message):
        read_config(tmp_path)


def test_a_tensor_that_is_missing_or_of_another_shape_is_named(tmp_path: Path) -> None:
    weights = random_weights(SMALL)
    weights["model.layers.1.mlp.up_proj.weight"] = weights["model.layers.1.mlp.up_proj.weight"][:95].contiguous()
    write(tmp_path, LLAMA, weights, files=2)
    with pytest.raises(ValueError, match=r"layers\.1\.mlp\.up_proj\.weight is missing or is not \(96, 64\) \(1 such"):
        read_weights(tmp_path, SMALL)


def test_the_command_generates_what_torch_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    config = LAYOUTS["qwen2"][1]
    weights = random_weights(config, seed=1)
    write(tmp_path, QWEN2, weights, files=1)
    monkeypatch.setattr(sys, "argv", ["llama", str(tmp_path), "--prompt", "1,2,4", "--prompt", "60", "--new", "6", "--alone"])
    command.main()
    plain, fresh, rows = Plain(config, weights, 2, 20, torch.float64), [[1, 2, 4], [60]], ["3 tokens, then:", "1 tokens, then:"]
    ended = [False, False]
    for _ in range(6):
        fresh = [[int(token)] for token in plain.step(fresh).argmax(1)]
        ended = [end or token in config.ends for end, [token] in zip(ended, fresh, strict=True)]
        rows = [row if end else f"{row} {token}" for row, end, [token] in zip(rows, ended, fresh, strict=True)]
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if "then:" in line] == rows
    assert "tokens per second" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no/such/folder"], r"no model in no/such/folder: .*No such file or directory: 'no/such/folder/config.json'"),
        (["--prompt", "1,two"], "argument --prompt: invalid token_ids value: '1,two'"),
        (["--prompt", ""], "argument --prompt: invalid token_ids value: ''"),
        *(([f"--{name}", "0"], "--batch, --length, --new and --layers begin at 1") for name in ("batch", "length", "new", "layers")),
        (["--new", "few"], "argument --new: invalid int value: 'few'"),
        (["--hidden", "300"], "argument --hidden: invalid choice: 300"),
        (["--device", "tpu"], "argument --device: invalid choice: 'tpu'"),
    ],
)
def test_a_wrong_argument_ends_in_one_line(arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    refused(arguments, message, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prompt", "1,67"], "--prompt: the token ids of this model are 0 to 66"),
        (["--prompt=-1"], "--prompt: the token ids of this model are 0 to 66"),
        (["--length", "129", "--new", "30"], "the longest prompt and 30 new tokens need 161 positions; the model has 160"),
    ],
)
def test_a_prompt_that_the_model_cannot_take_ends_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, LLAMA, random_weights(SMALL), files=1)
    refused([str(tmp_path), *arguments], message, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "Expecting property name"), ('{"model_type": "llama"}', "no 'hidden_size'"), ('{"model_type": 1}', "model_type 1"), ("[1, 2]", "'list' object"),
        ("null", "'NoneType' object"), (b"\xff\xfe{".decode("latin-1"), "Expecting value"),
    ],
)  # fmt: skip
def test_a_folder_that_holds_no_model_ends_in_one_line(
    config: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(config, encoding="utf-8")
    refused([str(tmp_path)], f"no model in .*: {message}", monkeypatch, capsys)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hidden_size": "64"}, "unsupported operand"), ({"num_attention_heads": 0}, "integer division or modulo by zero"),
        ({"num_key_value_heads": 3}, "sizes .* heads in equal groups"), ({"num_hidden_layers": -1}, "sizes .* whole numbers from 1"),
        ({"head_dim": 15}, "sizes .* even width"), ({"vocab_size": 67.5}, "sizes"), ({"rope_scaling": [8]}, "'list' object"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "no 'factor'"), ({"intermediate_size": None}, "sizes"),
    ],
)  # fmt: skip
def test_a_config_with_wrong_sizes_ends_in_one_line_that_helps(
    wrong: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, {**LLAMA, **wrong}, {"none": torch.zeros(1)}, files=1)
    refused([str(tmp_path)], f"no model in .*: {message}.*; one has config.json and .safetensors", monkeypatch, capsys)


def damaged(folder: Path, how: str) -> None:
    file, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    whole = file.read_bytes()
    match how:
        case "cut off in its data" | "cut off in its header" | "empty":
            file.write_bytes(whole[: {"cut off in its data": len(whole) // 2, "cut off in its header": 20, "empty": 0}[how]])
        case "no such format":
            file.write_bytes(b"PK" + whole[2:])
        case "gone":
            file.unlink()
        case "an index without a map":
            index.write_text("{}", encoding="utf-8")
        case "an index of other files":
            index.write_text('{"weight_map": {"a": "other.safetensors"}}', encoding="utf-8")
        case _:
            index.write_text('{"weight_map": [3]}', encoding="utf-8")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("cut off in its data", "model.safetensors is damaged or cut off"), ("cut off in its header", "model.safetensors is damaged or cut off"),
        ("empty", "model.safetensors is damaged or cut off"), ("no such format", "model.safetensors is damaged or cut off"), ("gone", ".*No such file"),
        ("an index without a map", "no 'weight_map'"), ("an index of other files", ".*No such file"), ("an index that is no table", "'list' object"),
    ],
)  # fmt: skip
def test_files_that_are_damaged_end_in_one_line_that_helps(
    how: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, LLAMA, {"none": torch.zeros(64)}, files=1)
    damaged(tmp_path, how)
    refused([str(tmp_path)], f"no model in .*: {message}.*; one has config.json and .safetensors", monkeypatch, capsys)


def refused(arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The command ends with status 2, and its last line is the message; no model is built for that."""
    monkeypatch.setattr(sys, "argv", ["llama", *arguments])
    monkeypatch.setattr(command, "Model", None)
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert re.match(f"python -m examples.llama: error: {message}", capsys.readouterr().err.splitlines()[-1])


def test_the_folder_runs_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(FOLDER.parents[1])
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in ("", root)])
    monkeypatch.setattr(sys, "argv", [str(FOLDER), "--new", "0"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(FOLDER), run_name="__main__")
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith("begin at 1\n")
    assert root in sys.path


def test_the_model_has_fewer_than_600_lines() -> None:
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in FOLDER.glob("*.py")) < 600
