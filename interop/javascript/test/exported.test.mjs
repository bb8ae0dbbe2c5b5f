// Exported functions: sizes parsed from strings, sizes computed from shapes, and errors. Run by `node --test`.
import assert from 'node:assert';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { env } from 'node:process';
import { test } from 'node:test';
import { Arr } from '../arrays.mjs';
import { dtypeNamed } from '../dtypes.mjs';
import { Refusal } from '../errors.mjs';
import { call, programAt, readExported } from '../exported.mjs';
import { constraintOfText, sizeOfText, solveSizes } from '../sizes.mjs';

const good = readFileSync(`${env.LAMINA_EXPORTED}/symbolic-0.1.0.lamexp`);
const refused = (run, words) => assert.throws(run, e => e instanceof Refusal && words.test(e.message));
const at = (text, values = {}) => Number(sizeOfText(text).at(new Map(Object.entries(values).map(([k, v]) => [k, BigInt(v)]))));
const zeros = (...shape) => new Arr(dtypeNamed('f32'), shape, new Array(shape.reduce((n, m) => n * m, 1)).fill(0));

// A file with a changed header, and a valid checksum.
function forged(change) {
  const length = Number(good.readBigUInt64LE(48)), header = JSON.parse(good.subarray(64, 64 + length));
  const text = Buffer.from(JSON.stringify(change(header) ?? header));
  const body = Buffer.concat([text, good.subarray(64 + length)]), head = Buffer.from(good.subarray(0, 64));
  createHash('sha256').update(body).digest().copy(head, 16);
  head.writeBigUInt64LE(BigInt(text.length), 48);
  return Buffer.concat([head, body]);
}

test('sizes are parsed from strings', () => {
  assert.equal(at('2*a^2 + 3*(b - 1)', { a: 3, b: 2 }), 21);
  assert.equal(at('-a + 2*-b', { a: 3, b: 2 }), -7);
  assert.deepEqual([at('floordiv(a - 7, 2)', { a: 2 }), at('mod(a - 7, 2)', { a: 2 }), at('floordiv(7, -2)'), at('mod(7, -2)')], [-3, 1, -4, -1]);
  assert.deepEqual([at('max(a, mod(b, 3))', { a: 1, b: 8 }), at('min(a, b)*2', { a: 1, b: 8 }), at(5), at('max', { max: 4 })], [2, 2, 5, 4]);
  for (const text of ['', 'a +', '(a', 'a b', 'a^b', 'max(a)', '2.5', 'a / 2', '('.repeat(500)]) refused(() => sizeOfText(text), /not understood/);
  refused(() => at('mod(a, 0)', { a: 1 }), /divided by 0/);
});

test('sizes are computed from shapes', () => {
  const pairs = [['a*b + 1', 13], ['2*a', 6], ['floordiv(b, 2)', 2]].map(([text, n]) => [sizeOfText(text), n]);
  assert.deepEqual([...solveSizes(['a', 'b'], pairs, [])], [['a', 3n], ['b', 4n]]);
  refused(() => solveSizes(['a'], [[sizeOfText('2*a'), 5]], []), /to be 2\*a; 5 is that for no a/);
  refused(() => solveSizes(['a'], [[sizeOfText('a - 3'), -3]], []), /at least 1/);
  refused(() => solveSizes(['a', 'b'], [[sizeOfText('a + b'), 5]], []), /do not determine the sizes a,b/);
  refused(() => solveSizes(['a'], [[sizeOfText('a'), 5], [sizeOfText('a + 1'), 5]], []), /must be a \+ 1 = 6; got 5/);
  refused(() => solveSizes(['a'], [[sizeOfText('a'), 5]], [constraintOfText('mod(a, 2) == 0')]), /must keep mod/);
});

test('calls with invalid arguments are refused', () => {
  const f = readExported(good);
  assert.deepEqual(call(f, [zeros(3, 4), zeros(4)])[0].data, [0, 0, 0]);
  refused(() => call(f, [zeros(3, 4)]), /2 arrays are expected; got 1/);
  refused(() => call(f, [zeros(3, 4), zeros(4, 1)]), /operand 1 is f32/);
  refused(() => call(f, [zeros(3, 4), zeros(5)]), /a size must be b = 4; got 5/);
  refused(() => call(f, [zeros(1, 4), zeros(4)]), /must keep a >= 2/);
});

test('invalid files are refused', () => {
  refused(() => readExported(good.subarray(0, 50)), /cut off/);
  refused(() => readExported(Buffer.from('PK')), /no exported function/);
  const changed = Buffer.from(good);
  changed[100] ^= 1;
  refused(() => readExported(changed), /checksum/);
  const sizes = new Map([['a', 3n], ['b', 4n]]), whole = bytes => programAt(readExported(bytes), sizes);
  refused(() => whole(forged(h => { h.names = ['a']; })), /without a name/);
  refused(() => whole(forged(h => { h.out_tree = null; })), /structures and types do not fit/);
  refused(() => whole(forged(h => { h.holes[0][1] = 'literal square'; })), /the form literal square of a replacement/);
  refused(() => whole(forged(h => { h.holes[0][0] = ['programs', 9]; })), /leads to nothing/);
  refused(() => whole(forged(h => { h.holes.pop(); })), /dot_general/);
  refused(() => whole(forged(h => { h.outs[0][1] = ['b']; })), /result 0 of the program is f32\[3\], and the function's f32\[4\]/);
  const junk = [null, 3, -1, 'a', 'a >= ', [], [1], {}, [['x']], [[['avals', 0], 'size', 'a']], [[['__proto__', 'x'], 'size', 1]]];
  for (const key of Object.keys(JSON.parse(good.subarray(64, 64 + Number(good.readBigUInt64LE(48)))))) {
    for (const value of junk) {
      try {
        call(readExported(forged(h => ({ ...h, [key]: value }))), [zeros(3, 4), zeros(4)]);
      } catch (e) {
        assert.ok(e instanceof Refusal, `${key} ${JSON.stringify(value)}: ${e.stack}`);
      }
    }
  }
});
