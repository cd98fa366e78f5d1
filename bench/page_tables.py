"""The tables of the pages, made from bench/figures.json. Needs no torch, so that pages are checked in no time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from bench.figures import Data, is_earlier, lookup
from bench.row import COLUMNS, LIMITS, NAMES, cells, limits

NETWORKS = {"lite0": "EfficientNet-Lite0", "resnet50": "ResNet-50"}
RATIOS = ("caso", "cafo", "many", "captum", "probable", "window")
AXES = {
    "side": "side of the picture (EfficientNet-Lite0)",
    "classes": "classes (small network, 64 pixels)",
    "photographs": "photographs in one call (EfficientNet-Lite0)",
    "thread-count": "threads (EfficientNet-Lite0)",
}
SMOOTH = {
    "chosen": "`smooth-caso`: eight maps, the chosen one certified",
    "path": "`smooth-caso`: eight maps, all certified",
    "paper": "the paper's algorithm",
}
STARTS = {"import": "`import secondsight`", "help": "`secondsight --help`", "explain": "`secondsight explain PHOTO`"}
IMPORTS = {
    "torch": "torch and sympy",
    "matplotlib": "matplotlib",
    "captum": "captum",
    "scipy": "scipy",
    "numpy": "numpy",
    "pil": "PIL",
    "terminal": "rich and typer",
    "own": "our own modules",
    "other": "others, and the standard library",
}
VIEWER = {
    "explain": "`secondsight explain PHOTO --html`",
    "compare": "`secondsight compare PHOTO --html`, side by side",
    "report": "`secondsight report`, 1,000 photographs",
}
MOST_STEP = 50
"""Milliseconds from a step of the slider to new pixels on the screen: more is felt."""
OWN = "our code: "
COLD = {
    "python": "starting and leaving Python",
    "import_torch": "importing torch",
    "import_matplotlib": "importing matplotlib",
    "import_other": "importing other packages",
    "load": "loading the network",
    "draw": "drawing and writing the figure",
    "network": "passes through the network",
    "import_own": f"{OWN}importing it",
    "explain": f"{OWN}the map, beside the network's passes",
    "rest": f"{OWN}options, reading the photograph, printing",
}


def markdown(titles: Sequence[str], rows: Iterable[Sequence[str]], right: bool = True) -> list[str]:
    """Lay out a table. The first column is text; the others are numbers unless `right` is False."""
    rule = ["---", *(["---:" if right else "---"] * (len(titles) - 1))]
    return ["| " + " | ".join(row) + " |" for row in (titles, rule, *rows)]


def run_table(data: Data, network: str) -> list[str]:
    """What each method costs on one network."""
    keys = {key: f"run.{network}.{key}" for key in NAMES if key in lookup(data, f"run.{network}")}
    rows = [(NAMES[row] + _mark(data, key), *cells(lookup(data, key))) for row, key in keys.items()]
    return markdown([NETWORKS[network], *(title for title, _ in COLUMNS.values())], rows)


def limits_table(data: Data) -> list[str]:
    """What rows may cost, and whether they do."""
    rows, networks = [], [lookup(data, f"run.{network}") for network in NETWORKS]
    for key, name in NAMES.items():
        found = [measured[key] for measured in networks if key in measured]
        rows += [
            (f"{name}: {LIMITS[what]}", *(_limit(figures, what) for figures in found))
            for what in limits(found[0] if found else {})
        ]
    return markdown(["at most", *NETWORKS.values()], rows, right=False)


def _limit(figures: Mapping[str, float], name: str) -> str:
    limit = figures[f"{name}_limit"]
    return f"{limit:g}: {'kept' if figures[name] <= limit else 'not kept'}"


def ratios_table(data: Data) -> list[str]:
    """This code against another commit, and the adapter for Captum against `explain`, as far as they were measured."""
    rows = []
    for network, name in NETWORKS.items():
        measured = lookup(data, f"ab.{network}")
        rows += [(f"{name}, {row}", *_ratio(data, f"ab.{network}.{row}")) for row in RATIOS if row in measured]
    return markdown(["", "new over old", "95 %", "at most", "within that", "pairs", "old"], rows)


def _ratio(data: Data, key: str) -> list[str]:
    f = lookup(data, key)
    interval = f"{f['low']:.3f} to {f['high']:.3f}"
    verdict = "shown" if f["high"] <= f["limit"] else "not shown"
    return [f"{f['ratio']:.3f}{_mark(data, key)}", interval, f"{f['limit']:g}", verdict, f"{f['pairs']}", f["old_code"]]


def scaling_table(data: Data) -> list[str]:
    """How the cost grows along each axis."""
    methods = ("gradient", "cafo", "caso")
    rows = []
    for key, name in AXES.items():
        axis = lookup(data, f"scaling.{key}")
        costs = [f"{axis[m]['from']:.3f} to {axis[m]['to']:.3f}, {axis[m]['slope']:.2f}" for m in methods]
        rows.append((name, f"{axis['from']:,} to {axis['to']:,}", *costs))
    return markdown(["along", "from, to", "gradient: seconds, slope", "`cafo`: the same", "`caso`: the same"], rows)


def smooth_table(data: Data, key: str) -> list[str]:
    """Smooth maps beside the paper's algorithm."""
    network, copies = key.split(".")
    rows = []
    for name, words in SMOOTH.items():
        f = lookup(data, f"smooth.{key}.{name}")
        values = f", the first {f['values']} of the eight values" if f.get("values", 8) < 8 else ""
        rows.append((words + values + _mark(data, f"smooth.{key}.{name}"), *_smooth_cells(f)))
    title = f"{NETWORKS[network]}, one photograph, n = {copies.removeprefix('n')}"
    return markdown([title, "g.e.", "seconds", "averaged products", "largest relative gap"], rows)


def _smooth_cells(f: Mapping[str, float]) -> list[str]:
    formats = {"ge": ".0f", "seconds": ".0f", "products": "d", "gap": ".0e"}
    return [format(f[name], how) if name in f else "" for name, how in formats.items()]


def imports_table(data: Data) -> list[str]:
    """How long each start takes, and the share of its imports."""
    found = [lookup(data, f"startup.{start}") for start in STARTS]
    total = ("seconds in all", *(f"{f['seconds']:.2f}" for f in found))
    shares = [(f"importing {words}", *(_share(f[name]) for f in found)) for name, words in IMPORTS.items()]
    return markdown(["", *STARTS.values()], [total, *shares])


def cold_table(data: Data) -> list[str]:
    """Where the first map of a new process spends its time."""
    f = lookup(data, "startup.cold")
    total = sum(f[part] for part in COLD)
    own = sum(f[part] for part, words in COLD.items() if words.startswith(OWN))
    seconds = {words: f[part] for part, words in COLD.items()} | {"our code in all": own, "in all": total}
    rows = [(words, f"{value:.2f}", _share(value / total)) for words, value in seconds.items()]
    return markdown(["`secondsight explain PHOTO`", "seconds", "share"], rows)


CLAIMS = {
    "problems": "problems",
    "certified": "certified to their tolerance",
    "not_bounded": "not certified: no bound of L, or contradictory products",
    "wrong": "**wrong**: a gap below the truth, or a zero or non-zero that is none",
    "bound_wrong": "bound of L below L",
    "path_wrong": "objectives of paths above the truth",
}


def certificates_table(data: Data) -> list[str]:
    """How often certificates were wrong, by what they rest on."""
    bases = ("proven", "probable", "estimated")
    found = [lookup(data, f"certificates.{basis}") for basis in bases]
    rows = [(words, *(f"{f[name]:,}" for f in found)) for name, words in CLAIMS.items()]
    rows.append(("share that is wrong, 95 %", *(f"{f['low']:.1e} to {f['high']:.1e}" for f in found)))
    rows.append(("products for a map, mean", *(f"{f['products']:.1f}" for f in found)))
    return markdown(["", *(f'"{basis}"' + _mark(data, f"certificates.{basis}") for basis in bases)], rows)


def load_table(data: Data) -> list[str]:
    """How much another program slows maps, beside how much it slows gradients."""
    rows = []
    for network, name in NETWORKS.items():
        f = lookup(data, f"load.{network}")
        ratio = f"{f['ratio']:.2f}, {f['low']:.2f} to {f['high']:.2f}"
        verdict = "shown" if f["high"] <= f["limit"] else "not shown"
        rows.append((name, f"{f['gradient']:.1f}", f"{f['explain']:.1f}", ratio, f"{f['limit']:g}", verdict))
    titles = ["times as long", "gradient", "`caso` map", "ratio, 95 %", "at most", "within that"]
    return markdown(titles, rows)


CURVED = {
    "vit-tiny": "ViT-Tiny, trained",
    "mobilenetv3": "MobileNetV3-Small, trained",
    "vit-small": "ViT-S/16, random weights",
    "convnext": "ConvNeXt-T, random weights",
    "efficientnet": "EfficientNet-B0, random weights",
    "se-resnet": "SE-ResNet-50, random weights",
}


def curved_table(data: Data) -> list[str]:
    """What maps cost on networks that are not piecewise linear."""
    rows = []
    for key, name in CURVED.items():
        cells = [name + _mark(data, f"run.{key}.caso-exact")]
        for kind in ("exact", "gauss-newton"):
            c = lookup(data, f"run.{key}.caso-{kind}")
            cells += [f"{c['ge']:.1f} ({c['ge95']:.1f})", f"{c['ge_limit']:g}", f"{c['products']:g}"]
            cells.append(f"{c['certified']} of {c['photographs']}")
            cells.append(f"{c['peak_ratio']:.1f} ({c['peak_ratio_limit']:g})")
        rows.append([*cells, f"{lookup(data, f'run.{key}.smoothgrad')['ge']:.0f}"])
    heads = ["g.e. (95 %)", "wanted", "products", "certified", "peak memory over a gradient's (wanted)"]
    return markdown(
        [
            "",
            *(f"exact: {head}" for head in heads),
            *(f"Gauss-Newton: {head}" for head in heads),
            "SmoothGrad-50: g.e.",
        ],
        rows,
    )


NON_RELU = {
    "lite0-softplus": "EfficientNet-Lite0 with softplus",
    "resnet50-softplus": "ResNet-50 with softplus",
    "mobilenetv3": "MobileNetV3-Small, trained",
    "vit-tiny": "ViT-Tiny, trained",
}


def non_relu_table(data: Data) -> list[str]:
    """The exact Hessian H and the Gauss-Newton matrix G on networks that are not piecewise linear."""
    rows = []
    for key, name in NON_RELU.items():
        f = lookup(data, f"non-relu.{key}")
        exact, newton = (f[kind] for kind in ("exact", "gauss-newton"))
        rows.append(
            (
                name + _mark(data, f"non-relu.{key}"),
                f"{f['difference']:.2f}, {f['difference_at_gradient']:.2f}",
                f"{f['ratio_of_L']:.2f}",
                f"{f['smallest']:.2f}; {f['indefinite']} of {f['photographs']}",
                f"{f['maps_apart']:.0f}, {f['chosen_maps_apart']:.0f}",
                f"{exact['angle']:.0f}, {newton['angle']:.0f}",
                *(f"{c['certified']} of {f['photographs']}, {c['products']:g}" for c in (exact, newton)),
                f"{f['rank_correlation']:.2f}, {f['rank_correlation_relative']:.2f}",
            )
        )
    return markdown(
        [
            "",
            "H - G over H: norms, at g",
            "L of H over L of G",
            "smallest eigenvalue of H over L; indefinite",
            "degrees from CASO by H to CASO by G: at lambda1 = 0, chosen",
            "degrees from CAFO to CASO: by H, by G",
            "certified, products: by H",
            "certified, products: by G",
            "rank correlation with the confidence: c1 = 10, c1 = L/4",
        ],
        rows,
    )


def _share(share: float) -> str:
    return f"{share:.0%}".replace("%", " %") if share else ""


def _mark(data: Data, key: str) -> str:
    return " (earlier)" if is_earlier(data, key) else ""


STATES = {
    "before": "Measured before the latest changes of the code.",
    "trial": "A trial: one repeat on a busy machine.",
}
"""What a page says of figures that are still to be measured well. They lose the mark when a new run is taken."""


def viewer_table(data: Data) -> list[str]:
    """The pages of the viewer: bytes, the time to open, and the time of a step of the slider."""
    rows = []
    for name, words in VIEWER.items():
        one = lookup(data, f"viewer.{name}")
        kept = "" if "worst" not in one else "kept" if one["worst"] <= MOST_STEP else "not kept"
        steps = [f"{one[key]:.0f}" if key in one else "" for key in ("drawn", "median", "worst")]
        rows.append([words + _mark(data, f"viewer.{name}"), f"{one['mb']:.2f}", f"{one['open']:.2f}", *steps, kept])
    titles = ["MB", "seconds to open", "step: drawn, ms", "on the screen, median", "worst", f"at most {MOST_STEP}"]
    return markdown(["page", *titles], rows)


IMAGENET = 1_200_000
"""Photographs of the arithmetic on docs/scaling.md."""
GPUS = (8, 64)
GRADIENT_MS = (2, 5, 20)
"""Milliseconds of one gradient that the arithmetic assumes: from a small network on a fast device to a large one."""


def dataset_table(data: Data) -> list[str]:
    """What a run costs, beside the same photographs in one call."""
    rows = []
    for network, name in _with_runs(data).items():
        f = lookup(data, f"datasets.{network}.run")
        verdict = "kept" if f["ratio"] <= f["limit"] else "not kept"
        cells = (f"{f['ge']:.2f}", f"{f['call_ge']:.2f}", f"{f['ratio']:.3f}", f"{f['limit']:.2f}: {verdict}")
        rows.append((name + _mark(data, f"datasets.{network}.run"), *cells, f"{f['kilobytes']:.0f}"))
    titles = ["", "run, g.e. each", "one call, g.e. each", "run over call", "at most", "kB each"]
    return markdown(titles, rows)


def _with_runs(data: Data) -> dict[str, str]:
    """Name the networks whose runs were measured."""
    return {network: name for network, name in NETWORKS.items() if network in data["datasets"]["figures"]}


def ray_table(data: Data) -> list[str]:
    """The pace of Ray beside that of the local engine."""
    f = lookup(data, "datasets.lite0.ray")
    verdict = "kept" if f["ratio"] >= f["limit"] else "not kept"
    paces = (f"{f['local']:.2f}", f"{f['ray']:.2f}", f"{f['ratio']:.2f}", f"{f['limit']:.2f}: {verdict}")
    titles = ["photographs a second", "local", f"Ray, {f['workers']} workers", "Ray over local", "at least"]
    return markdown(titles, [("EfficientNet-Lite0" + _mark(data, "datasets.lite0.ray"), *paces)])


def gpus_table(data: Data) -> list[str]:
    """Hours for a whole training set, by what one gradient takes: arithmetic, on figures of CPUs."""
    costs = {name: lookup(data, f"datasets.{network}.run")["ge"] for network, name in _with_runs(data).items()}
    rows = [
        (f"{ms} ms", *(f"{IMAGENET * cost * ms / 1e3 / gpus / 3600:.2g}" for cost in costs.values() for gpus in GPUS))
        for ms in GRADIENT_MS
    ]
    titles = [f"{name}, {gpus} GPUs: hours" for name in costs for gpus in GPUS]
    return markdown(["if a gradient takes", *titles], rows)


TABLES: dict[str, Callable[[Data], list[str]]] = {
    **{f"run.{network}": lambda data, network=network: run_table(data, network) for network in NETWORKS},
    "run.limits": limits_table,
    "run.curved": curved_table,
    "ab": ratios_table,
    "scaling": scaling_table,
    **{f"smooth.{key}": lambda data, key=key: smooth_table(data, key) for key in ("resnet50.n5", "resnet50.n50")},
    "datasets.run": dataset_table,
    "datasets.ray": ray_table,
    "datasets.gpus": gpus_table,
    "startup.imports": imports_table,
    "startup.cold": cold_table,
    "certificates": certificates_table,
    "load": load_table,
    "non-relu": non_relu_table,
    "viewer": viewer_table,
}
"""The tables by the names that markers have."""


def table(data: Data, name: str) -> str:
    """Make a table.

    Raises:
        KeyError: if there is no such table, or no data for it.
    """
    lines = TABLES[name](data)
    state = data[name.partition(".")[0]].get("measured")
    return "\n".join(lines if state is None else [*lines, "", STATES[state]])
