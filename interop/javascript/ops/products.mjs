// Sums of products: docs/_generated/ops/linalg.md, docs/_generated/ops/convolution.md, docs/_generated/ops/fft.md.
import { along, axesWithin, build, cut, offset, range, replaced, stridesOf } from '../arrays.mjs';
import * as D from '../dtypes.mjs';
import { refuse } from '../errors.mjs';
import * as C from '../numbers/complex.mjs';
import { elementOf, oneDtype, operands, type } from './shared.mjs';
import { total, windowCount } from './reductions.mjs';

export const ops = {};

// An element in the dtype of a sum of products.
function widened(d, out, x) {
  if (D.isComplex(out)) return Array.isArray(x) ? x : [Number(x), 0];
  if (D.isFloat(out)) return Number(x);
  return D.isBool(out) ? Boolean(x) : typeof x === 'bigint' ? x : elementOf(out, x);
}

function summed(pairs, lhs, rhs, out) {
  if (D.isBool(out)) return pairs.some(([i, j]) => lhs.data[i] && rhs.data[j]);
  const products = pairs.map(([i, j]) => {
    const x = widened(lhs.dtype, out, lhs.data[i]), y = widened(rhs.dtype, out, rhs.data[j]);
    return Array.isArray(x) ? C.mul(x, y) : x * y;
  });
  return total(products, out);
}

const resultDtype = (types, preferred) => preferred?.dtype ?? oneDtype(types);

ops.dot_general = {
  params: { dimension_numbers: 'list', precision: 'any', preferred_element_type: 'dtype?' },
  infer: ([lhs, rhs, ...rest], { dimension_numbers: [[lc, rc], [lb, rb]], preferred_element_type: preferred }) => {
    operands(rest, 0);
    if (lc.length !== rc.length || lb.length !== rb.length) refuse('axes go in pairs');
    axesWithin('lhs', [...lc, ...lb], lhs.shape.length);
    axesWithin('rhs', [...rc, ...rb], rhs.shape.length);
    [...lc, ...lb].forEach((a, i) => {
      if (lhs.shape[a] !== rhs.shape[[...rc, ...rb][i]]) refuse('paired axes must have equal length');
    });
    const free = (t, used) => t.shape.filter((_, a) => !used.includes(a));
    return [type(resultDtype([lhs, rhs], preferred), [...lb.map(a => lhs.shape[a]), ...free(lhs, [...lc, ...lb]), ...free(rhs, [...rc, ...rb])])];
  },
  run: ([lhs, rhs], p) => {
    const [[lc, rc], [lb, rb]] = p.dimension_numbers, [out] = ops.dot_general.infer([lhs, rhs], p);
    const free = (x, used) => range(x.shape.length).filter(a => !used.includes(a));
    const lf = free(lhs, [...lc, ...lb]), rf = free(rhs, [...rc, ...rb]);
    const ls = stridesOf(lhs.shape), rs = stridesOf(rhs.shape);
    const inner = build(null, lc.map(a => lhs.shape[a]), k => [
      lc.reduce((n, a, i) => n + ls[a] * k[i], 0), rc.reduce((n, a, i) => n + rs[a] * k[i], 0)]).data;
    return [build(out.dtype, out.shape, at => {
      const l = [...lb, ...lf].reduce((n, a, i) => n + ls[a] * at[i], 0);
      const r = rb.reduce((n, a, i) => n + rs[a] * at[i], 0) + rf.reduce((n, a, i) => n + rs[a] * at[lb.length + lf.length + i], 0);
      return summed(inner.map(([i, j]) => [l + i, r + j]), lhs, rhs, out.dtype);
    })];
  },
};

ops.conv_general_dilated = {
  params: { batch_group_count: 'int', dimension_numbers: 'any', feature_group_count: 'int', lhs_dilation: 'ints', padding: 'pairs',
            precision: 'any', preferred_element_type: 'dtype?', rhs_dilation: 'ints', window_strides: 'ints' },
  infer: ([lhs, rhs, ...rest], p) => {
    operands(rest, 0);
    const ndim = lhs.shape.length, specs = specsOf(p);
    for (const spec of specs) axesWithin('dimension_numbers', spec, ndim);
    if (rhs.shape.length !== ndim || specs.some(s => s.length !== ndim)) refuse('each part of dimension_numbers names every axis');
    const [batch, features, ...space] = specs[0].map(a => lhs.shape[a]), [outs, ins, ...window] = specs[1].map(a => rhs.shape[a]);
    if (features !== ins * p.feature_group_count || batch % p.batch_group_count || outs % (p.feature_group_count * p.batch_group_count)) {
      refuse('features and batch do not fit the groups');
    }
    const counts = space.map((n, i) => windowCount(n, windowOf(p, i, window[i]))), shape = [];
    [batch / p.batch_group_count, outs, ...counts].forEach((n, i) => { shape[specs[2][i]] = n; });
    return [type(resultDtype([lhs, rhs], p.preferred_element_type), shape)];
  },
  run: ([lhs, rhs], p) => {
    const [ls, rs, os] = specsOf(p), [out] = ops.conv_general_dilated.infer([lhs, rhs], p);
    const lStrides = stridesOf(lhs.shape), rStrides = stridesOf(rhs.shape);
    const outs = rhs.shape[rs[0]], ins = rhs.shape[rs[1]], window = rs.slice(2).map(a => rhs.shape[a]);
    const batch = lhs.shape[ls[0]] / p.batch_group_count, groups = p.feature_group_count * p.batch_group_count;
    return [build(out.dtype, out.shape, at => {
      const [n, o, ...place] = os.map(a => at[a]), group = Math.floor(o / (outs / groups)), pairs = [];
      const example = p.batch_group_count > 1 ? group * batch + n : n, first = p.feature_group_count > 1 ? group * ins : 0;
      build(null, [ins, ...window], ([c, ...k]) => {
        const where = k.map((j, i) => (place[i] * p.window_strides[i] + j * p.rhs_dilation[i] - p.padding[i][0]) / p.lhs_dilation[i]);
        if (!where.every((v, i) => Number.isInteger(v) && v >= 0 && v < lhs.shape[ls[2 + i]])) return;
        const l = [example, first + c, ...where].reduce((m, v, i) => m + lStrides[ls[i]] * v, 0);
        pairs.push([l, [o, c, ...k].reduce((m, v, i) => m + rStrides[rs[i]] * v, 0)]);
      });
      return summed(pairs, lhs, rhs, out.dtype);
    })];
  },
};

function specsOf({ dimension_numbers: { record, fields } }) {
  if (record !== 'ConvDimensionNumbers') refuse('dimension_numbers must be ConvDimensionNumbers');
  return [fields.lhs_spec, fields.rhs_spec, fields.out_spec];
}

const windowOf = (p, i, size) => ({ size, stride: p.window_strides[i], low: p.padding[i][0], high: p.padding[i][1], base: p.lhs_dilation[i],
                                    dilation: p.rhs_dilation[i] });

// --- fft ------------------------------------------------------------------------------------------------------------
// The transform along one axis, by its definition.
function along1(x, axis, sign) {
  const n = x.shape[axis], strides = stridesOf(x.shape);
  return build(x.dtype, x.shape, at => {
    let sum = [0, 0];
    for (let j = 0; j < n; j++) {
      const angle = sign * 2 * Math.PI * ((j * at[axis]) % n) / n;
      sum = C.add(sum, C.mul(x.data[offset(strides, replaced(at, axis, j))], [Math.cos(angle), Math.sin(angle)]));
    }
    return sum;
  });
}

const lastAxes = (x, n) => range(x.shape.length).slice(x.shape.length - n);
const wholeTransform = (x, axes, sign) => axes.reduce((y, a) => along1(y, a, sign), x);

ops.fft = {
  params: { fft_lengths: 'ints', fft_type: 'any' },
  infer: ([x, ...rest], { fft_lengths: lengths, fft_type: kind }) => {
    operands(rest, 0);
    if (kind?.enum !== 'FftType' || lengths.length < 1 || lengths.length > 3 || x.shape.length < lengths.length) refuse('one to three axes are transformed');
    const last = lengths[lengths.length - 1], half = Math.floor(last / 2) + 1, head = x.shape.slice(0, x.shape.length - lengths.length);
    if (kind.member === 'RFFT' ? !(D.isFloat(x.dtype) && x.dtype.bytes >= 4) : !D.isComplex(x.dtype)) refuse(`${kind.member} does not take ${x.dtype.name}`);
    const wanted = [...head, ...lengths.slice(0, -1), kind.member === 'IRFFT' ? half : last];
    if (wanted.some((n, a) => n !== x.shape[a])) refuse(`the operand must be [${wanted}]`);
    const whole = [...head, ...lengths];
    if (kind.member === 'RFFT') return [type(D.complexOf(x.dtype), replaced(whole, whole.length - 1, half))];
    return [type(kind.member === 'IRFFT' ? D.partOf(x.dtype) : x.dtype, whole)];
  },
  run: ([x], p) => {
    const [out] = ops.fft.infer([x], p), kind = p.fft_type.member, axes = lastAxes(x, p.fft_lengths.length);
    if (out.shape.includes(0) || x.shape.includes(0)) return [build(out.dtype, out.shape, () => elementOf(out.dtype, 0))];
    const last = axes[axes.length - 1], count = p.fft_lengths.reduce((n, m) => n * m, 1);
    let y = x;
    if (kind === 'RFFT') y = cut(wholeTransform(x.with(x.data.map(C.real), out.dtype), axes, -1), last, 0, out.shape[last]);
    else if (kind === 'IRFFT') y = hermitian(x, axes.slice(0, -1), last, out.shape[last]);
    else y = wholeTransform(x, axes, kind === 'FFT' ? -1 : 1);
    const scaled = y.data.map(v => (kind === 'IFFT' ? C.scale(1 / count, v) : v));
    return [y.with(scaled.map(v => D.rounded(out.dtype, v)), out.dtype)];
  },
};

// The real array of half a spectrum: complex along the other axes, then along the last the sum of Re(x[k] e^...) and its mirror.
function hermitian(x, others, last, n) {
  const y = wholeTransform(x, others, 1);
  const scale = 1 / (n * others.reduce((m, a) => m * x.shape[a], 1)), strides = stridesOf(y.shape);
  return build(D.partOf(x.dtype), replaced(x.shape, last, n), at => {
    let sum = 0;
    for (let k = 0; k <= Math.floor(n / 2); k++) {
      const v = y.data[offset(strides, replaced(at, last, k))], angle = 2 * Math.PI * ((k * at[last]) % n) / n;
      const twice = k && 2 * k !== n ? 2 : 1;
      sum += twice * (twice === 2 ? v[0] * Math.cos(angle) - v[1] * Math.sin(angle) : v[0] * Math.cos(angle));
    }
    return sum * scale;
  });
}

