"""ImageNet-21k on paper: what the measured stages and their growth say about a cluster.

Every figure follows from ``results/imagenet.json`` and the table of assumptions below.

    python -m benchmarks.imagenet --plan
"""

from __future__ import annotations

from typing import Any

from benchmarks.record import keep

ASSUMED: dict[str, tuple[float, str]] = {
    "classes": (21_841, "ImageNet-21k"),
    "images": (14_197_122, "ImageNet-21k"),
    "bytes_per_image": (110_000, "mean size of a JPEG file of ImageNet, before resizing"),
    "latent_width": (2_048, "the pooled output of a ResNet-50"),
    "bytes_per_number": (2, "latents are stored in float16"),
    "images_per_second_and_gpu": (2_500, "ResNet-50 forward in half precision on one large GPU"),
    "gpus": (8, "one machine"),
    "cores": (64, "of the machine; the measurement used one"),
    "efficiency": (0.7, "of that many cores, against as many times one"),
    "epochs": (30, "of training the head on stored components"),
    "operations_per_second_and_gpu": (2e14, "sustained in training, 6 for a weight and an image"),
    "gpu_hour_cost": (3.0, "US dollars, on demand"),
    "core_hour_cost": (0.05, "US dollars, on demand"),
}
# By their operations stages grow so at least; fixed costs and other load can hide it in the times.
LEAST = {"components": 1, "projection": 1, "ideals": 1, "pruning": 2, "VI layer": 1}
BY_CLASS = ("collect", "components", "projection", "ideals")  # work per latent or per class


def write_plan(measured: dict[str, Any]) -> None:
    """Print and keep the stages side by side, the assumptions and the plan."""
    keep("imagenet_stages", stages(measured))
    assumed = [{"name": k.replace("_", " "), "value": v, "of": w} for k, (v, w) in ASSUMED.items()]
    keep("imagenet_assumptions", assumed)
    keep("imagenet_plan", plan(measured))


def stages(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """One row a stage: CPU seconds at every size, exponent, peak memory of the process so far."""
    found: dict[str, dict[str, Any]] = {}
    for row in sorted(measured["rows"], key=lambda row: row["classes"]):
        mine = found.setdefault(row["stage"], {"stage": row["stage"]})
        mine[f"seconds_{row['classes']}"] = row["cpu_seconds"]
        mine["peak_GiB"] = row["peak_GiB"]  # that of the largest stays
    largest = max(row["classes"] for row in measured["rows"])
    total: dict[str, Any] = {"stage": "all"}
    clock: dict[str, Any] = {"stage": "all, by the clock"}
    for size in sorted({row["classes"] for row in measured["rows"]}):
        here = [row for row in measured["rows"] if row["classes"] == size]
        total[f"seconds_{size}"] = sum(row["cpu_seconds"] for row in here)
        clock[f"seconds_{size}"] = sum(row["seconds"] for row in here)
    total["peak_GiB"] = max(r["peak_GiB"] for r in measured["rows"] if r["classes"] == largest)
    rows = [{**row, "exponent": measured["exponents"].get(row["stage"])} for row in found.values()]
    return [*rows, total, clock]


def plan(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """One row a stage: seconds of one core, hours on the machine, bytes, memory, cost."""
    a = {name: value for name, (value, _) in ASSUMED.items()}
    rows, exponents = measured["rows"], measured["exponents"]
    largest = max(row["classes"] for row in rows)
    at = {row["stage"]: row for row in rows if row["classes"] == largest}
    growth = a["classes"] / largest
    latents = a["images"] * a["latent_width"] * a["bytes_per_number"]
    points = a["images"] * measured["components"] * 4
    fewer = a["images"] / (measured["samples"] * a["classes"])  # images a class, against measured
    generators = at["ideals"]["generators"] * growth
    memory = {  # GiB that a process holds, of what grows
        "forward": 0.0,
        "components": a["latent_width"] ** 2 * 8,
        "projection": 0.0,
        "ideals": points / a["cores"],
        "pruning": measured["check_per_class"] * a["classes"] * measured["components"] * 8,
        "VI layer": measured["kept_per_class"] * a["classes"] * measured["monomials"] * 4,
        "training": 4 * measured["kept_per_class"] * a["classes"] * a["classes"] * 4,
    }
    moved = {
        "forward": a["images"] * a["bytes_per_image"] + latents,
        "components": 3 * latents,
        "projection": latents + points,
        "ideals": points,
        "pruning": generators * 8,
        "VI layer": 0.0,
        "training": a["epochs"] * points,
    }
    out = []
    for stage in moved:
        if stage == "forward":
            hours = a["images"] / a["images_per_second_and_gpu"] / a["gpus"] / 3600
            exponent, cost = None, hours * a["gpus"] * a["gpu_hour_cost"]
        elif stage == "training":
            weights = measured["kept_per_class"] * a["classes"] ** 2  # of the linear layer
            work = 6 * weights * a["epochs"] * a["images"]
            hours = work / a["operations_per_second_and_gpu"] / a["gpus"] / 3600
            exponent, cost = None, hours * a["gpus"] * a["gpu_hour_cost"]
        else:
            exponent = max(exponents[stage], LEAST[stage])
            seconds = at[stage]["cpu_seconds"] * growth**exponent
            if stage in BY_CLASS:
                seconds *= fewer
            hours = seconds / 3600 / (a["cores"] * a["efficiency"])
            cost = hours * a["cores"] * a["core_hour_cost"]
        out.append(
            {
                "stage": stage,
                "measured_seconds": None if exponent is None else at[stage]["cpu_seconds"],
                "exponent": exponent,
                "machine_hours": hours,
                "moved_GiB": moved[stage] / 2**30,
                "memory_GiB": memory[stage] / 2**30,
                "cost_dollars": cost,
            }
        )
    total = {key: sum(row[key] for row in out) for key in ("machine_hours", "moved_GiB")}
    last = {"stage": "all", "measured_seconds": None, "exponent": None, **total}
    last["memory_GiB"] = max(row["memory_GiB"] for row in out)
    last["cost_dollars"] = sum(row["cost_dollars"] for row in out)
    return [*out, last]
