"""Frozen first numbers of every draw, in the classic and in the partitionable stream: a stream must never change."""
from __future__ import annotations

import numpy as np
import pytest

import lamina_random as random
from lamina_ir import config

KEY = np.array([0, 42], np.uint32)
TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
LOGITS = np.array([0.1, 0.2, 0.7], np.float32)

# (draw, first three numbers of the classic stream, of the partitionable one)
ROWS = [
    (lambda: random.bits(KEY, (5,)),
     [3134548294, 3733159049, 843694964], [2098992034, 2919706841, 2646866425]),
    (lambda: random.bits(KEY, (9,), "uint8"),
     [234, 32, 251], [162, 217, 249]),
    (lambda: random.bits(KEY, (5,), "uint16"),
     [8426, 37627, 63599], [5026, 12505, 63993]),
    (lambda: random.split(KEY, 3),
     [3134548294, 3733159049, 3746501087], [1832780943, 270669613, 64467757]),
    (lambda: random.fold_in(KEY, 7),
     [2547012911, 1371500959], [2547012911, 1371500959]),
    (lambda: random.uniform(KEY, (7,), minval=-2.0, maxval=5.0),
     [2.8146019, 2.197053, -0.14358819], [1.420967, 2.7585802, 2.3139005]),
    (lambda: random.uniform(KEY, (5,), "float16"),
     [0.12792969, 0.57324219, 0.96972656], [0.076171875, 0.19042969, 0.97558594]),
    (lambda: random.normal(KEY, (16, 3)),
     [-0.22038743, -0.87946957, -0.89447975], [-0.028304616, 0.46713185, 0.29570296]),
    (lambda: random.normal(KEY, (4,), "complex64"),
     [0.4478112-0.4013186j, 1.031634+0.6262355j, 0.9634871-0.6590665j],
     [0.05368746+0.4283398j, -0.3438962+0.5650095j, 0.9123945-0.6427085j]),
    (lambda: random.randint(KEY, (9,), 0, 10),
     [5, 2, 3], [4, 4, 1]),
    (lambda: random.randint(KEY, (9,), -100, 1000),
     [95, 932, 983], [44, 814, 371]),
    (lambda: random.randint(KEY, (9,), -128, 127, "int8"),
     [-83, -91, 55], [61, -119, -122]),
    (lambda: random.bernoulli(KEY, 0.3, (20,)),
     [True, False, False], [False, False, False]),
    (lambda: random.permutation(KEY, 10),
     [9, 0, 2], [7, 4, 2]),
    (lambda: random.permutation(KEY, TABLE, independent=True),
     [0, 10, 11], [3, 7, 2]),
    (lambda: random.permutation(KEY, TABLE, axis=1),
     [2, 0, 1], [2, 0, 1]),
    (lambda: random.choice(KEY, 10, (4,)),
     [5, 4, 7], [4, 4, 1]),
    (lambda: random.choice(KEY, 10, (4,), replace=False),
     [9, 0, 2], [7, 4, 2]),
    (lambda: random.choice(KEY, 4, (6,), p=WEIGHTS),
     [1, 1, 1], [2, 2, 2]),
    (lambda: random.choice(KEY, 4, (3,), replace=False, p=WEIGHTS),
     [1, 0, 3], [3, 2, 1]),
    (lambda: random.choice(KEY, TABLE, (2,)),
     [6, 7, 8], [0, 1, 2]),
    (lambda: random.categorical(KEY, LOGITS, shape=(5,)),
     [1, 2, 2], [2, 2, 2]),
    (lambda: random.truncated_normal(KEY, -1.0, 2.0, (9,)),
     [0.48392147, -0.19508071, -0.47596925], [0.14770006, 0.56844491, 0.42102551]),
    (lambda: random.exponential(KEY, (9,)),
     [1.0326496, 0.38936895, 0.2150436], [0.67081749, 1.1388006, 0.95782]),
    (lambda: random.gumbel(KEY, (9,)),
     [0.82063222, -0.12363553, -0.49622566], [0.33409339, 0.95201945, 0.72553056]),
    (lambda: random.laplace(KEY, (9,)),
     [-0.33950248, 0.43845609, 0.94936287], [0.022839652, -0.44565356, -0.26467291]),
    (lambda: random.logistic(KEY, (9,)),
     [0.59249634, -0.74223441, -1.4274666], [-0.045169413, 0.7528398, 0.47375232]),
    (lambda: random.cauchy(KEY, (9,)),
     [0.48576373, -0.62358761, -1.4372648], [-0.035484631, 0.63372612, 0.38244057]),
    (lambda: random.maxwell(KEY, (9,)),
     [0.29390249, 0.65870267, 0.74481195], [0.55358249, 0.29328507, 1.708603]),
    (lambda: random.rademacher(KEY, (9,)),
     [-1, 1, 1], [1, -1, -1]),
    (lambda: random.rayleigh(KEY, 2.0, (9,)),
     [1.8764931, 3.0087917, 3.6249251], [2.3933022, 1.7571814, 1.9678774]),
    (lambda: random.weibull_min(KEY, 2.0, 1.5, (9,)),
     [2.0432994, 1.0664427, 0.7178731], [1.5326145, 2.1810308, 1.943357]),
    (lambda: random.pareto(KEY, 2.0, (9,)),
     [1.6758573, 1.2149276, 1.1135151], [1.3985119, 1.7672069, 1.6143138]),
    (lambda: random.lognormal(KEY, 0.5, (9,)),
     [1.2026196, 0.79426533, 0.64885455], [0.98594737, 1.2630961, 1.1593407]),
    (lambda: random.triangular(KEY, 0.0, 1.0, 3.0, (9,)),
     [1.5383661, 0.98363978, 0.76189315], [1.2485027, 1.6139203, 1.4826434]),
    (lambda: random.geometric(KEY, 0.3, (9,)),
     [2, 4, 5], [3, 2, 2]),
    (lambda: random.wald(KEY, 2.0, (9,)),
     [0.72871733, 0.41637182, 1.8540338], [2.2265885, 3.9277124, 0.38947535]),
    (lambda: random.double_sided_maxwell(KEY, 1.0, 2.0, (9,)),
     [3.4401038, -0.46682847, 2.3037732], [-1.7620435, -0.35137796, 5.4440427]),
]


@pytest.mark.parametrize("partitionable", [False, True])
@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_numbers_stay_the_same(row, partitionable):
    draw, classic, own = row
    with config.threefry_partitionable(partitionable):
        found = np.asarray(draw())
    wanted = np.array(own if partitionable else classic)
    found = found.ravel()[:3]
    if found.dtype.kind in "fc":
        tolerance = 2e-3 if found.dtype == np.float16 else 2e-6
        np.testing.assert_allclose(found.astype(wanted.dtype), wanted, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(found, wanted)


def test_first_words_of_the_published_test_vectors():
    from lamina_tracing import lax
    ones = np.uint32(0xFFFFFFFF)
    pi = [np.uint32(w) for w in (0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3)]
    for args, words in (((np.uint32(0),) * 4, (0x6B200159, 0x99BA4EFE)), ((ones,) * 4, (0x1CB996FC, 0xBB002BE7)),
                        (pi, (0xC4923A9C, 0x483DF7A0))):
        assert tuple(int(y) for y in lax.threefry2x32(*args)) == words
