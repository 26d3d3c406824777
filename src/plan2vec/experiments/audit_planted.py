"""Claim: an audit finds nine in ten of the damaged episodes and hardly any other; splices of look-alikes may stay
hidden.

Expected: recall and precision of at least 0.9 for every kind of damage.

Damage of one kind at a time is planted in a tenth of the episodes: copies are added, other kinds change an episode.
Planted are only episodes in which nothing is found in the unspoiled recording. *Found*: the episode has a finding of
the expected kind. *False*: another episode has one that it does not have in the unspoiled recording; *known*: one that
it has there, too. Spliced: two episodes exchange their ends, so that no frame occurs twice. A cut may join look-alikes,
so that no eye sees it. These splices have a row of their own: what is known in truth (where things are, how the joints
stand) changes no more there than over 99 % of the recorded steps by two. The simulated episodes go from anywhere in the
C-Maze to one goal, before a noisy camera. The real ones are read from `--recordings` and named after the file, at 5
frames per second. No map is fitted: all these kinds are found in frames. *There and back* needs one: it is fitted to
the spoiled recording. The rules were chosen on seeds below 40; damage that is found in frames was planted with seeds
from 40 on.
"""

import numpy as np
from scipy.stats import binomtest

from plan2vec.datasets.audit import Audit, audit
from plan2vec.experiments.episode_progress import ROBOT, robot_domain
from plan2vec.experiments.planted_damage import COPIES, Damaged, goal_episodes, plant
from plan2vec.pipeline import fit
from plan2vec.readers import read
from plan2vec.results.comparisons import Figures, legend_below, panels
from plan2vec.results.experiment import Experiment, Settings, timed
from plan2vec.results.rows import Arrays, Case, Groups, Row, in_order, make_rows, markdown, select, values

_, SIMULATED = DOMAINS = (ROBOT, "c-maze")
BLOCKS, METHODS = ("planted", "map"), ("plan2vec",)
ROBOT_RATE, SIMULATED_RATE = 5.0, 10.0  # frames per second
EXPECTED = {"copied": "duplicate", "trimmed copy": "duplicate", "re-encoded copy": "duplicate",
            "reversed": "wrong-end", "cut": "wrong-end", "spliced": "jump", "frozen": "frozen", "shifted": "off-map",
            "darkened": "off-map", "there and back": "detour"}
FRAMES_ONLY = tuple(EXPECTED)[:-1]
NUM_EPISODES = 60  # simulated


def run(settings: Settings) -> Groups:
    blocks = settings.chosen("blocks", BLOCKS)
    for known, seed in settings.scenes(DOMAINS):
        domain = known if known == SIMULATED else robot_domain(settings)
        if domain is not None:
            detours = ("there and back",) if domain == SIMULATED and "map" in blocks else ()
            yield from _planted(settings, domain, seed, (FRAMES_ONLY if "planted" in blocks else ()) + detours)


def _planted(settings: Settings, domain: str, seed: int, kinds: tuple[str, ...]) -> Groups:
    cases = {kind: Case(settings.experiment, domain, {"block": "planted", "damage": kind}, METHODS[0], seed)
             for kind in kinds if settings.lacks(domain=domain, damage=kind, seed=seed)}
    if not cases:
        return
    num_simulated = 12 if settings.size.is_smoke else NUM_EPISODES
    is_simulated = domain == SIMULATED
    sequences = goal_episodes(SIMULATED, num_simulated, seed)
    if settings.recordings is not None and not is_simulated:
        sequences = read(settings.recordings)
    unspoiled, seconds = timed(audit, sequences)
    clean = {f"findings {kind}": sum(one.kind == kind for one in unspoiled.all_findings)
             for kind in sorted({*EXPECTED.values(), "stall", "length"})}
    case = Case(settings.experiment, domain, {"block": "unspoiled"}, METHODS[0], seed)
    yield make_rows(case, {"episodes": len(unspoiled.rows)} | clean, seconds, settings.stamp)
    sound = [row.episode for row in unspoiled.rows if not row.findings]
    for kind, case in cases.items():
        rng = np.random.default_rng((seed, list(EXPECTED).index(kind)))
        damaged = plant(sequences, kind, SIMULATED_RATE if is_simulated else ROBOT_RATE, sound, rng)
        needs_map = kind not in FRAMES_ONLY
        model = fit(damaged.sequences, settings.size.config, device=settings.device.type) if needs_map else None
        answer, seconds = timed(audit, damaged.sequences, model)
        yield make_rows(case, counts(damaged, answer, unspoiled, kind), seconds, settings.stamp)


def counts(damaged: Damaged, answer: Audit, unspoiled: Audit, kind: str) -> dict[str, int]:
    """How many were planted, found, and found elsewhere. Of a copy either episode may be named."""
    named, before = ([one for one in audit.all_findings if one.kind == EXPECTED[kind]] for audit in (answer, unspoiled))
    if kind in COPIES:
        pairs = {frozenset((one.episode, one.other[0])) for one in named if one.other}
        right = {copy for copy, original in damaged.planted.items() if frozenset((copy, original)) in pairs}
        wrong = pairs - {frozenset(pair) for pair in damaged.planted.items()}
        return {"planted": len(damaged.planted), "found": len(right), "false": len(wrong), "known": 0}
    flagged, known = ({one.episode for one in some} for some in (named, before))
    elsewhere = flagged - damaged.planted.keys()
    seen = damaged.planted.keys() - damaged.hidden
    return {"planted": len(damaged.planted), "found": len(flagged & damaged.planted.keys()), "seen": len(seen),
            "found_seen": len(flagged & seen), "false": len(elsewhere - known), "known": len(elsewhere & known)}


def wilson(num: float, of: float) -> str:
    """ "0.97 (0.83-0.99)": a share and its 95 % interval by Wilson's score."""
    if not of:
        return "-"
    low, high = binomtest(round(num), round(of)).proportion_ci(method="wilson")
    return f"{num / of:.2f} ({low:.2f}-{high:.2f})"


def table(rows: list[Row]) -> list[str]:
    lines = []
    for domain in in_order(select(rows, block="planted"), "domain"):
        body = []
        for kind, expected in EXPECTED.items():
            planted, found, seen, found_seen, false, known = (
                values(rows, domain=domain, damage=kind, metric=metric).sum()
                for metric in ("planted", "found", "seen", "found_seen", "false", "known"))
            if planted:
                body.append([kind, expected, f"{planted:.0f}", wilson(found, planted), wilson(found, found + false),
                             f"{false:.0f}", f"{known:.0f}"])
            if 0 < seen < planted:
                for words, num, right in (("apart", seen, found_seen),
                                          ("within two steps", planted - seen, found - found_seen)):
                    body.append([f"- {kind}, ends {words}", "", f"{num:.0f}", wilson(right, num), "", "", ""])
        clean = select(rows, domain=domain, block="unspoiled")
        head = f"{domain}, {values(clean, metric='episodes').mean():.0f} episodes: damage"
        lines += markdown([head, "finding", "planted", "recall", "precision", "false", "known"], body)
        seeds = len({row["seed"] for row in clean})
        words = ", ".join(f"{metric.removeprefix('findings ')} {values(clean, metric=metric).mean():.1f}"
                          for metric in in_order(clean, "metric")
                          if metric.startswith("findings") and values(clean, metric=metric).any())
        lines += [f"Findings in the unspoiled recording, per repetition ({seeds}): {words or 'none'}.", ""]
    return lines


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    part = select(rows, block="planted")
    if not part:
        return {}
    domains = in_order(part, "domain")
    figure, axes = panels(len(domains), 9, 3.4)
    for ax, domain in zip(axes, domains, strict=True):
        kinds = [kind for kind in EXPECTED if select(part, domain=domain, damage=kind)]
        for offset, (name, over) in zip((-0.18, 0.18), (("recall", "planted"), ("precision", "false")), strict=True):
            found, other = (np.array([values(part, domain=domain, damage=kind, metric=metric).sum() for kind in kinds])
                            for metric in ("found", over))
            shares = 100 * found / np.maximum(1, other if name == "recall" else found + other)
            ax.barh(np.arange(len(kinds))[::-1] - offset, shares, 0.34, label=name)
        ax.set_yticks(np.arange(len(kinds))[::-1], kinds, fontsize=8)
        ax.set(xlim=(0, 103), xlabel="%", title=domain)
    legend_below(figure, axes[-1], 2, fontsize=10)
    return {"": figure}


EXPERIMENT = Experiment("audit", "Damaged episodes found", __doc__, run, table, draw, DOMAINS, METHODS, BLOCKS)
