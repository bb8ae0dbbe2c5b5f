"""Frozen first numbers of every draw, in the classic and in the partitionable stream: a stream must never change."""
from __future__ import annotations

import numpy as np
import pytest

import lamina_random as random
from lamina_ir import config, dtypes

KEY = np.array([0, 42], np.uint32)
TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
LOGITS = np.array([0.1, 0.2, 0.7], np.float32)
SHAPES = np.array([0.3, 1, 30, 2.5], np.float32)

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
    # By rejection, and in small dtypes: JAX 0.10.2's numbers.
    (lambda: random.gamma(KEY, SHAPES),
     [0.0036995292, 0.95811385, 25.12611], [0.43624744, 0.33158407, 35.993221]),
    (lambda: random.loggamma(KEY, SHAPES),
     [-5.5995498, -0.042788655, 3.2239075], [-0.82954562, -1.1038738, 3.5833306]),
    (lambda: random.beta(KEY, SHAPES, 2.0),
     [0.0045110281, 0.098043755, 0.99284631], [0.15331332, 0.084156655, 0.97727782]),
    (lambda: random.chisquare(KEY, SHAPES),
     [0.00047095097, 0.056070086, 23.094864], [0.13176222, 1.0126549, 38.476696]),
    (lambda: random.t(KEY, SHAPES),
     [3.0955257, 0.86879092, 1.8231183], [1.692692, -31.686203, 1.470391]),
    (lambda: random.f(KEY, SHAPES, 3.0),
     [0.039677285, 2.6178036, 0.96333212], [0.0021910679, 0.0024225195, 0.59033227]),
    (lambda: random.dirichlet(KEY, SHAPES),
     [0.00013222058, 0.03424285, 0.89800352], [0.011382737, 0.0086518191, 0.93914884]),
    (lambda: random.generalized_normal(KEY, 1.5, (4,)),
     [0.39584532, -1.4283743, 0.47341144], [-0.87823755, -0.20616245, 1.160471]),
    (lambda: random.ball(KEY, 3, 2, (2,)),
     [0.33328885, 0.22969273, -0.034676541], [0.32340229, 0.061338749, 0.018243387]),
    (lambda: random.generalized_normal(KEY, 7, (9,)),
     [0.77144855, -0.21619116, 0.49288192], [-0.65232253, -0.39337304, 0.73339903]),
    (lambda: random.ball(KEY, 3, 7, (2,)),
     [0.6702773, 0.25954878, -0.058681153], [0.2646806, 0.09254466, 0.018318314]),
    (lambda: random.weibull_min(KEY, 2.0, np.float16([.3, .7, 3])),
     [1.1804851, 0.08066914, 0.788777], [0.5287743, 2.4078104, 1.971482]),
    (lambda: random.ball(KEY, 3, np.float32([1, 2, 3])),
     [-0.18366522, 0.22669481, -0.055011377], [0.56633919, 0.024600588, 0.0066591129]),
    (lambda: random.wald(KEY, 0.3, (6,)),
     [0.16167487, 0.56378484, 0.31574684], [0.31273794, 0.39126378, 0.15005219]),
    (lambda: random.triangular(KEY, -1.0, 0.3, 2.0, (6,)),
     [0.82614994, 1.1832309, 1.1929874], [0.38519931, 0.72209764, 0.60106635]),
    (lambda: random.gamma(KEY, 2.0, (2, 3)),
     [1.3926742, 4.324059, 0.28820914], [3.6725166, 1.0923854, 3.5018392]),
    (lambda: random.poisson(KEY, np.float32([1, 9, 30, 1000])),
     [0, 6, 26], [1, 6, 24]),
    (lambda: random.binomial(KEY, np.float32([5, 40, 200, 1000]), np.float32([0.3, 0.1, 0.4, 0.9])),
     [2, 5, 75], [1, 6, 73]),
    (lambda: random.randint(KEY, (4,), -100, 100, "int8"),
     [95, -66, 37], [-56, 14, -29]),
    (lambda: random.logistic(KEY, (4,), "bfloat16"),
     [0.21875, -4.125, -1.140625], [0.54296875, 1.6875, 3.4375]),
    (lambda: random.cauchy(KEY, (4,), "bfloat16"),
     [0.18554688, -14.125, -1.015625], [0.45898438, 1.859375, 9.75]),
    (lambda: random.normal(KEY, (4,), "bfloat16"),
     [0.14257812, -2.109375, -0.69140625], [0.34375, 1.015625, 1.890625]),
    (lambda: random.gamma(KEY, SHAPES, dtype="float16"),
     [0.019302368, 1.2333984, 16.703125], [0.0023384094, 0.20532227, 42.125]),
    (lambda: random.logistic(KEY, (4,), "float16"),
     [0.84326172, -4.2070312, 0.05859375], [-2.4941406, -1.4472656, 3.6875]),
    (lambda: random.cauchy(KEY, (4,), "float16"),
     [0.72509766, -20.265625, 0.047576904], [-4.0390625, -1.4580078, 12.851562]),
]


@pytest.mark.parametrize("partitionable", [False, True])
@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_numbers_stay_the_same(row, partitionable):
    draw, classic, own = row
    with config.threefry_partitionable(partitionable):
        found = np.asarray(draw())
    wanted = np.array(own if partitionable else classic)
    found = found.ravel()[:3]
    if not dtypes.is_integer(found.dtype) and not dtypes.is_bool(found.dtype):
        tolerance = {"float16": 2e-3, "bfloat16": 1e-2}.get(found.dtype.name, 2e-6)
        np.testing.assert_allclose(found.astype(wanted.dtype), wanted, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("partitionable, wanted", [(False, 2.503430741575886), (True, 2.2980183424083127)])
def test_gamma_of_64_bits_stays_the_same(partitionable, wanted):
    with config.enable_x64(True), config.threefry_partitionable(partitionable):
        np.testing.assert_allclose(random.gamma(KEY, 2.0), wanted, rtol=1e-14)


def test_counts_in_64_bit_mode_stay_the_same():
    with config.enable_x64(True):
        # Poisson numbers are drawn in 32 bits in either mode, binomial ones in the dtype of their parameters.
        np.testing.assert_array_equal(random.poisson(KEY, np.float64(30), (1000,))[:3], [40, 31, 37])
        np.testing.assert_array_equal(random.binomial(KEY, 200, 0.3, (1000,))[:3], [63, 62, 54])
        np.testing.assert_array_equal(random.binomial(KEY, np.float32(200), np.float32(0.3), (1000,))[:3], [72, 61, 69])


def test_first_words_of_the_published_test_vectors():
    from lamina_tracing import lax
    ones = np.uint32(0xFFFFFFFF)
    pi = [np.uint32(w) for w in (0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3)]
    for args, words in (((np.uint32(0),) * 4, (0x6B200159, 0x99BA4EFE)), ((ones,) * 4, (0x1CB996FC, 0xBB002BE7)),
                        (pi, (0xC4923A9C, 0x483DF7A0))):
        assert tuple(int(y) for y in lax.threefry2x32(*args)) == words


@pytest.mark.parametrize("low, high, dtype, expected", [
    (0.9, 5.9, "int32", [0, 3, 3, 2]), (0, 1e6, "int32", [915798, 70071, 188743, 438808]),
    (0, 1e12, "int32", [333915798, 1418070071, 1428705096, 1381438808]),
    (np.float32([0.5, 1.5, -3.5, 0]), np.float32([5.5, 9.9, 2.5, 1e20]), "uint8", [0, 8, 1, 88]),
    (0, np.int32([300, 255, 256, 7]), "uint8", [150, 173, 71, 3]), (0, np.int32([300, 255, 256, 7]), "int8", [22, 55, 71, 3]),
    (np.int32([0, 250, 300, -9]), np.int32([300] * 4), "uint8", [150, 255, 255, 88])])
def test_bounds_beyond_the_dtype_and_of_floats(low, high, dtype, expected):
    np.testing.assert_array_equal(random.randint(random.PRNGKey(7), (4,), low, high, dtype), expected)


@pytest.mark.parametrize("n, p, expected", [
    (20, 0.5, [13, 12, 11, 11]), (1e4, 0.001, [2, 8, 8, 7]), (40, 0.75, [36, 32, 32, 32])])
def test_binomial_of_mean_ten(n, p, expected):
    np.testing.assert_array_equal(random.binomial(random.PRNGKey(7), np.float32(n), np.float32(p), (8,))[:4], expected)


def test_narrow_negative_seeds_have_no_high_word():
    with config.enable_x64(True):
        for seed in (np.int8(-1), np.int32(-1), np.array(-1, np.int32)):
            assert np.asarray(random.PRNGKey(seed)).tolist() == [0, 2 ** 32 - 1]
        assert np.asarray(random.PRNGKey(-1)).tolist() == [2 ** 32 - 1] * 2
