"""Whether one set of measurements can be told from the others. Pure but for the dice of the bootstrap."""

import random
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

RESAMPLES = 2_000  # the ends of a 95 % interval then rest on 50 draws each


@dataclass(frozen=True)
class Comparison:
    """One class against all the others pooled."""

    count: int
    median: float
    others_median: float
    low: float  # 95 % bootstrap interval of the difference
    high: float
    auc: float  # how often a random one of this class took longer than a random other; 0.5 says nothing

    @property
    def difference(self) -> float:
        return self.median - self.others_median


def compare(name: str, samples: Mapping[str, Sequence[float]]) -> Comparison:
    ours = sorted(samples[name])
    others = sorted(value for other, values in samples.items() if other != name for value in values)
    low, high = difference_interval(ours, others, dice=random.Random())
    return Comparison(len(ours), median(ours), median(others), low, high, auc(ours, others))


def difference_interval(ours: Sequence[float], others: Sequence[float], *, dice: random.Random) -> tuple[float, float]:
    """Between which two values the difference of the medians lies in 95 % of resamples. Both must be sorted."""
    differences = sorted(_resampled_median(ours, dice) - _resampled_median(others, dice) for _ in range(RESAMPLES))
    return differences[RESAMPLES * 25 // 1000], differences[RESAMPLES * 975 // 1000]


def _resampled_median(ordered: Sequence[float], dice: random.Random) -> float:
    # The median of n draws with replacement is the value at the median of n uniform ranks, and that rank is
    # Beta-distributed: one draw does what n draws and a sort would.
    half = (len(ordered) + 1) / 2
    return ordered[min(int(dice.betavariate(half, half) * len(ordered)), len(ordered) - 1)]


def auc(ours: Sequence[float], others: Sequence[float]) -> float:
    """The rank test of Mann and Whitney as a probability; ties count half. `others` must be sorted."""
    wins = sum(bisect_left(others, value) + bisect_right(others, value) for value in ours)
    return wins / (2 * len(ours) * len(others))
