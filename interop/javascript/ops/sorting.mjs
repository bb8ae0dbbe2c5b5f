// Sorting and random numbers: docs/_generated/ops/sorting.md, docs/_generated/ops/random_bits.md, docs/_generated/ops/random_keys.md.
import { Arr, build, full, lines, range, replaced, sizeOf, stridesOf, offset } from '../arrays.mjs';
import * as D from '../dtypes.mjs';
import { refuse } from '../errors.mjs';
import { I32, U32, axisWithin, compare, elementOf, needs, oneDtype, oneShape, operands, sameTypes, type } from './shared.mjs';
import { broadcast } from '../arrays.mjs';

export const ops = {};

ops.sort = {
  params: { dimension: 'int', is_stable: 'bool', num_keys: 'int' },
  infer: (types, { dimension, num_keys: keys }) => {
    if (!types.length || keys < 1 || keys > types.length) refuse('between one key and all operands');
    sameTypes(types);
    axisWithin(dimension, types[0].shape.length);
    for (const t of types) needs(t, d => !D.isKey(d), 'numbers');
    return types;
  },
  run: (xs, { dimension, num_keys: keys }) => {
    const results = xs.map(x => ({ dtype: x.dtype, length: x.shape[dimension] }));
    return lines(xs[0], dimension, results, places => {
      const order = [...places].sort((a, b) => {
        for (const x of xs.slice(0, keys)) {
          const c = compare(x.data[a], x.data[b]);
          if (c) return c;
        }
        return a - b;
      });
      return xs.map(x => order.map(p => x.data[p]));
    });
  },
};

ops.top_k = {
  params: { axis: 'int', k: 'int' },
  infer: ([t, ...rest], { axis, k }) => {
    operands(rest, 0);
    axisWithin(axis, t.shape.length);
    needs(t, d => !D.isComplex(d), 'an operand that can be ordered');
    if (k < 0 || k > t.shape[axis]) refuse('k must be between 0 and the length');
    return [type(t.dtype, replaced(t.shape, axis, k)), type(I32, replaced(t.shape, axis, k))];
  },
  run: ([x], { axis, k }) => lines(x, axis, [{ dtype: x.dtype, length: k }, { dtype: I32, length: k }], places => {
    const order = range(places.length).sort((a, b) => compare(x.data[places[b]], x.data[places[a]]) || a - b).slice(0, k);
    return [order.map(i => x.data[places[i]]), order.map(BigInt)];
  }),
};

// --- generators -----------------------------------------------------------------------------------------------------
const M32 = 0xffffffffn;

export function threefry(k0, k1, x0, x1) {
  const keys = [k0, k1, k0 ^ k1 ^ 0x1bd11bdan];
  x0 = (x0 + k0) & M32;
  x1 = (x1 + k1) & M32;
  for (let g = 0; g < 5; g++) {
    for (const r of g % 2 ? [17n, 29n, 16n, 24n] : [13n, 15n, 26n, 6n]) {
      x0 = (x0 + x1) & M32;
      x1 = (((x1 << r) | (x1 >> (32n - r))) & M32) ^ x0;
    }
    x0 = (x0 + keys[(g + 1) % 3]) & M32;
    x1 = (x1 + keys[(g + 2) % 3] + BigInt(g + 1)) & M32;
  }
  return [x0, x1];
}

function philox(key, counter) {
  let c = range(4).map(i => (counter >> BigInt(32 * i)) & M32), k0 = key & M32, k1 = key >> 32n;
  for (let r = 0; r < 10; r++) {
    const p = 0xd2511f53n * c[0], q = 0xcd9e8d57n * c[2];
    c = [(q >> 32n) ^ c[1] ^ k0, q & M32, (p >> 32n) ^ c[3] ^ k1, p & M32];
    k0 = (k0 + 0x9e3779b9n) & M32;
    k1 = (k1 + 0xbb67ae85n) & M32;
  }
  return c;
}

ops.threefry2x32 = {
  params: {},
  infer: types => {
    operands(types, 4);
    for (const t of types) needs(t, d => d === U32, 'u32');
    const out = type(oneDtype(types), oneShape(types));
    return [out, out];
  },
  run: xs => {
    const shape = oneShape(xs), whole = xs.map(x => broadcast(x, shape));
    const pairs = whole[0].data.map((_, i) => threefry(...whole.map(x => x.data[i])));
    return [0, 1].map(k => new Arr(U32, shape, pairs.map(p => p[k])));
  },
};

const words64 = x => (x.dtype.bits === 64 ? x.data : [x.data[0] | (x.data[1] << 32n), x.data[2] | (x.data[3] << 32n)]);

// The random numbers of Threefry: [elements, counters used].
function threefryBits(s0, s1, d, given) {
  const shape = given.length ? given : [1];
  const even = shape.findIndex(n => n % 2 === 0), axis = even >= 0 ? even : shape.indexOf(Math.max(...shape));
  const half = d.bits === 64 ? shape : replaced(shape, axis, Math.ceil(shape[axis] / 2));
  const count = sizeOf(half), draws = range(count).map(t => {
    const c = BigInt.asUintN(64, s1 + BigInt(t));
    return threefry(s0 & M32, s0 >> 32n, c & M32, c >> 32n);
  });
  if (d.bits === 64) return [draws.map(([a, b]) => a | (b << 32n)), count];
  const strides = stridesOf(half);
  return [build(d, shape, at => D.wrap(d, draws[offset(strides, replaced(at, axis, at[axis] >> 1))][at[axis] % 2])).data, count];
}

ops.rng_bit_generator = {
  params: { algorithm: 'any', dtype: 'dtype', shape: 'ints' },
  infer: ([key, ...rest], { dtype: { dtype }, shape }) => {
    operands(rest, 0);
    const form = `${key.dtype.name}[${key.shape}]`;
    if (form !== 'u32[4]' && form !== 'u64[2]') refuse(`the key must be u32[4] or u64[2]; got ${form}`);
    if (!D.isInteger(dtype) || dtype.signed || dtype.bits < 8 || shape.some(n => n < 0)) refuse('an unsigned dtype, and lengths of at least 0');
    return [key, type(dtype, shape)];
  },
  run: ([key], { algorithm, dtype: { dtype: d }, shape }) => {
    const [s0, s1] = words64(key);
    let bits, count;
    if (algorithm.member === 'RNG_THREE_FRY') [bits, count] = threefryBits(s0, s1, d, shape);
    else {
      const words = sizeOf(shape) * (d.bits === 64 ? 2 : 1);
      count = Math.ceil(words / 4);
      const made = range(count).flatMap(t => philox(s0, BigInt.asUintN(128, (s0 << 64n) + s1 + BigInt(t))));
      bits = range(sizeOf(shape)).map(i => (d.bits === 64 ? made[2 * i] | (made[2 * i + 1] << 32n) : D.wrap(d, made[i])));
    }
    const next = BigInt.asUintN(64, s1 + BigInt(count));
    const state = key.dtype.bits === 64 ? [s0, next] : [s0 & M32, s0 >> 32n, next & M32, next >> 32n];
    return [key.with(state), new Arr(d, shape, bits)];
  },
};

ops.rng_uniform = {
  params: { shape: 'ints' },
  draws: true,
  infer: ([a, b, ...rest], { shape }) => {
    operands(rest, 0);
    if (a.shape.length || b.shape.length) refuse('the bounds must be scalars');
    return [type(oneDtype([a, b]), shape)];
  },
  run: ([a, b], { shape }) => [build(a.dtype, shape, () => {
    const [lo, hi] = [Number(a.data[0]), Number(b.data[0])];
    const x = lo + Math.random() * (hi - lo);
    return D.isInteger(a.dtype) ? (hi <= lo ? a.data[0] : BigInt(Math.floor(x))) : elementOf(a.dtype, x);
  })],
};

// --- keys -----------------------------------------------------------------------------------------------------------
ops.random_wrap = {
  params: { impl: 'str' },
  infer: ([words, ...rest], { impl }) => {
    operands(rest, 0);
    const d = D.dtypeNamed(`key<${impl}>`);
    if (words.dtype !== U32 || words.shape[words.shape.length - 1] !== d.words) refuse(`the data of a key<${impl}> must be u32[..., ${d.words}]`);
    return [type(d, words.shape.slice(0, -1))];
  },
  run: ([words], { impl }) => {
    const d = D.dtypeNamed(`key<${impl}>`), shape = words.shape.slice(0, -1);
    return [new Arr(d, shape, range(sizeOf(shape)).map(i => words.data.slice(i * d.words, (i + 1) * d.words)))];
  },
};
ops.random_unwrap = {
  params: { use: 'str' },
  infer: ([keys, ...rest]) => {
    operands(rest, 0);
    needs(keys, D.isKey, 'keys');
    return [type(U32, [...keys.shape, keys.dtype.words])];
  },
  run: ([keys]) => [new Arr(U32, [...keys.shape, keys.dtype.words], keys.data.flat())],
};

