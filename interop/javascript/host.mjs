// The host functions that the corpus calls by name.
import { Arr, range } from './arrays.mjs';
import { dtypeNamed, rounded } from './dtypes.mjs';

const [f32, i32] = ['f32', 'i32'].map(dtypeNamed);

export const host = new Map([
  ['sum_up', (x, y) => [x.with(x.data.map((v, i) => rounded(i32, v + y.data[i])))]],
  ['halves', (x, y) => [
    new Arr(f32, x.shape, x.data.map((v, i) => rounded(f32, Number(v) / 2 + Number(y.data[i])))),
    new Arr(i32, x.shape, range(x.data.length).sort((a, b) => Number(x.data[a] - x.data[b]) || a - b).map(BigInt))]],
  ['ignored', () => []],
]);
