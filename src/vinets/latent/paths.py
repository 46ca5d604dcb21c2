"""Find what every output of a network was computed from, in one forward pass that is recorded.

The tensors that depend on the inputs are numbered in the order in which they are made, and every
operation joins the numbers of its arguments to that of its result. Numbers are therefore a
topological order: all paths from the inputs to the logits pass a tensor exactly if no edge between
tensors that the logits need jumps over its number. What is recorded is what runs, so that it does
not matter how a network is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from vinets.core.device import Inputs, call, logits_of

# These take the shape of their argument, and none of its values.
SHAPE_ONLY = {"zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"}
SHAPE_ONLY |= {"new_zeros", "new_ones", "new_empty", "new_full", "new_empty_strided"}

# Layers of torch that run as a whole in use, so that what is inside returns nothing then.
WHOLE_LAYERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.MultiheadAttention)


@dataclass
class Output:
    """What a module returned at its first call: a tensor, by its number, and its shape."""

    number: int
    shape: tuple[int, ...]  # without the batch
    passed_on: bool  # the module returned one of its own inputs


@dataclass
class PassRecord:
    """Which tensors a forward pass made, from which others, and by which parameters."""

    parents: list[set[int]] = field(default_factory=list)  # by number, smaller than it
    parameters: list[set[int]] = field(default_factory=list)  # ids of those that were read
    flops: list[int] = field(default_factory=list)
    outputs: dict[str, Output] = field(default_factory=dict)  # by module, in the order of returns
    logits: int = 0  # the number of the logits
    # Parameters of which constants were made, with the number of the tensor made before.
    constants: list[tuple[int, set[int]]] = field(default_factory=list)

    def read(self, number: int, ran: bool = False) -> set[int]:
        """Return the ids of parameters that a tensor needs; ``ran`` adds what ran before it."""
        read = set().union(*(self.parameters[each] for each in self.needed(number)))
        return read.union(*(ids for when, ids in self.constants if ran and when < number))

    def needed(self, number: int) -> list[int]:
        """Return the numbers of all tensors that one was computed from, and its own."""
        needed = {number}
        for each in range(number, -1, -1):
            if each in needed:
                needed |= self.parents[each]
        return sorted(needed)

    def dominators(self) -> set[int]:
        """Return the numbers of the tensors that every path to the logits passes."""
        needed = self.needed(self.logits)
        farthest = 0  # the end of the longest edge that began earlier
        ends: dict[int, int] = {}
        for number in needed:
            ends |= dict.fromkeys(self.parents[number], number)
        passed = set()
        for number in needed:
            if farthest <= number:
                passed.add(number)
            farthest = max(farthest, ends.get(number, number))
        return passed


class _Recorder(TorchDispatchMode):
    """Record every operation on tensors that depend on the inputs."""

    def __init__(self, inputs: Iterable[Tensor], parameters: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recording = PassRecord()
        self.numbers: dict[int, int] = {}  # by the id of a tensor
        self.read: dict[int, set[int]] = {id(p): {id(p)} for p in parameters}
        # A tensor that shares memory with one that was changed in place may have changed with it.
        self.changed: dict[int, int] = {}  # the number of the last change, by memory
        self.alive: list[Any] = []  # so that no id is used twice
        self._add(inputs, set(), set(), 0)

    def _add(self, tensors: Iterable[Tensor], parents: set[int], read: set[int], flops: int) -> int:
        self.recording.parents.append(parents)
        self.recording.parameters.append(read)
        self.recording.flops.append(flops)
        number = len(self.recording.parents) - 1
        for tensor in tensors:
            self.numbers[id(tensor)] = number
            self.alive.append(tensor)
        return number

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = operation(*args, **kwargs)
        name = str(getattr(operation, "_overloadpacket", operation)).removeprefix("aten.")
        arguments = [] if name in SHAPE_ONLY else tensors_in((args, kwargs))
        parents = set()
        for tensor in arguments:
            own = self.numbers.get(id(tensor), -1)
            parents |= {own, max(own, self.changed.get(_memory(tensor), -1))} - {-1}
        read = set().union(*(self.read.get(id(t), ()) for t in arguments))
        made = tensors_in(result)
        if all(t.dtype == torch.bool for t in made) and not any(
            t.is_floating_point() for t in arguments
        ):
            parents = set()  # a mask of padding tells which tokens count, and carries none
        if not parents:  # made of parameters alone, such as a weight that is normalised
            self.read |= {id(t): self.read.get(id(t), set()) | read for t in made if read}
            self.recording.constants.append((len(self.recording.parents) - 1, read))
            self.alive += made
            return result
        count = flop_registry.get(getattr(operation, "_overloadpacket", None))
        flops = int(count(*args, **kwargs, out_val=result)) if count else 0
        number = self._add(made, parents, read, flops)
        for changed in _changed(operation, args, kwargs):
            self.numbers[id(changed)] = self.changed[_memory(changed)] = number
            self.alive.append(changed)
        return result


def record(model: nn.Module, example: Inputs) -> PassRecord:
    """Run a network once in eval mode, and record what depends on its inputs.

    Inputs by name that hold ``mask`` count as constants: they choose among values, and are used
    again in every layer.
    """
    named = example if isinstance(example, Mapping) else {"": example}
    inputs = [t for name, value in named.items() if "mask" not in name for t in tensors_in(value)]
    recorder, batch = _Recorder(inputs, model.parameters()), inputs[0].shape[:1]
    outputs = recorder.recording.outputs

    def watch(name: str, module: nn.Module, args: Any, options: Any, output: Any) -> None:
        tensor = main_tensor(output)
        if name in outputs or tensor is None or tensor.shape[:1] != batch:
            return  # windows and patches that are counted as examples are none
        if id(tensor) in recorder.numbers:
            passed_on = any(tensor is each for each in tensors_in((args, options)))
            shape = tuple(tensor.shape[1:])
            outputs[name] = Output(recorder.numbers[id(tensor)], shape, passed_on)

    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError(
            "a network that was scripted or traced by torch.jit cannot be cut. Pass the network "
            "that it was made of, or its ONNX file."
        )
    whole = [layer for layer in model.modules() if isinstance(layer, WHOLE_LAYERS)]
    inside = {part for layer in whole for part in layer.modules() if part is not layer}
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if name and module not in inside:
                hook = lambda *seen, name=name: watch(name, *seen)  # noqa: E731
                stack.enter_context(module.register_forward_hook(hook, with_kwargs=True))
        stack.enter_context(torch.no_grad())
        stack.enter_context(counted_kernels(model))
        stack.enter_context(recorder)
        logits = logits_of(call(model, example))
    recorder.recording.logits = recorder.numbers[id(logits)]
    return recorder.recording


@contextmanager
def counted_kernels(model: nn.Module) -> Iterator[None]:
    """Run attention and recurrent layers as matrix products; torch counts none of fused kernels."""
    backends: Any = torch.backends  # whose stubs do not know that flags can be set
    before = backends.mha.get_fastpath_enabled(), backends.mkldnn.enabled
    backends.mha.set_fastpath_enabled(False)
    if any(isinstance(module, nn.RNNBase) for module in model.modules()):
        backends.mkldnn.enabled = False  # without recurrent layers it only makes passes slow
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        backends.mha.set_fastpath_enabled(before[0])
        backends.mkldnn.enabled = before[1]


def main_tensor(output: Any) -> Tensor | None:
    """Return the tensor that latents are read from: ``last_hidden_state``, or the first one."""
    if isinstance(output, Mapping) and output.get("last_hidden_state") is not None:
        output = output["last_hidden_state"]
    return next(iter(tensors_in(output)), None)


def tensors_in(value: Any) -> list[Tensor]:
    """Return the tensors in a value, or in what it holds, in order."""
    value = dict(value) if isinstance(value, Mapping) else value
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _changed(operation: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> list[Tensor]:
    """Return the arguments that an operation changes in place."""
    schema = getattr(operation, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    given = dict(zip((a.name for a in schema.arguments), args, strict=False)) | dict(options)
    return [
        tensor
        for argument in schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
        for tensor in tensors_in(given.get(argument.name))
    ]
