// Invalid files are refused with an error message. Run by `node --test`.
import assert from 'node:assert';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { env } from 'node:process';
import { test } from 'node:test';
import { checkAll } from '../check.mjs';
import { dtypeNamed, readElement, rounded, writeElement } from '../dtypes.mjs';
import { Refusal } from '../errors.mjs';
import { evaluate } from '../evaluate.mjs';
import { read } from '../file.mjs';
import { files } from '../corpus.mjs';

const corpus = env.LAMINA_CORPUS;
const good = readFileSync(`${corpus}/0.1.0/sin.lamina`);

// A file with a changed header, and a valid checksum.
function forged(bytes, change) {
  const length = Number(bytes.readBigUInt64LE(48)), header = JSON.parse(bytes.subarray(64, 64 + length)), buffers = bytes.subarray(64 + length);
  const made = change(header) ?? header;
  const text = Buffer.from(JSON.stringify(made)), body = Buffer.concat([text, buffers]), head = Buffer.from(bytes.subarray(0, 64));
  createHash('sha256').update(body).digest().copy(head, 16);
  head.writeBigUInt64LE(BigInt(text.length), 48);
  return Buffer.concat([head, body]);
}

const whole = bytes => {
  const found = read(bytes);
  checkAll(found.programs);
  return found.main;
};
const refused = (bytes, words) => assert.throws(() => whole(bytes), e => e instanceof Refusal && words.test(e.message));

test('damaged files are refused', () => {
  refused(Buffer.from('PK'), /no saved program/);
  refused(good.subarray(0, 40), /cut off/);
  refused(good.subarray(0, good.length - 1), /cut off or damaged/);
  for (let at = 64; at < good.length; at += 37) {
    const bytes = Buffer.from(good);
    bytes[at] ^= 4;
    refused(bytes, /checksum/);
  }
  const newer = Buffer.from(good);
  newer[8] = 3;
  refused(newer, /format 3; this reader knows 1 to 2/);
});

test('invalid headers are refused', () => {
  const first = h => h.programs[h.main].eqns[0];
  refused(forged(good, h => { first(h)[0] = 'sine'; }), /no op named `sine`/);
  refused(forged(good, h => { h.ops = { sin: 2 }; }), /version 2 of `sin`; this reader has version 1/);
  refused(forged(good, h => { h.ops = { sin: 'x' }; }), /no version/);
  refused(forged(good, h => { first(h)[3] = { y: 2 }; }), /unexpected param y/);
  refused(forged(good, h => { first(h)[1] = [999]; }), /number of no variable/);
  refused(forged(good, h => { h.main = -1; }), /number of no program/);
  refused(forged(good, h => { h.avals[0][0] = 'f31'; }), /no element type/);
  refused(forged(good, h => { h.buffers[0][3] += 4; }), /do not fit its type/);
  refused(forged(good, h => { h.avals.push(['f32', [7], 0]); first(h)[2] = [h.avals.length - 1]; }), /result 0 is f32\[7\]; the op gives/);
  refused(forged(good, () => []), /must be a list|malformed/);
  refused(forged(good, h => { first(h)[1] = [[0, '00']]; }), /literal/);
});

test('every change of a header gives a valid program or a refusal', () => {
  const junk = [0, -1, 7, 1e12, 0.5, 'x', null, true, [], {}, { tuple: [1] }, { program: 0 }, { enum: ['FftType', 'FFT'] }, { dtype: 'f32' }];
  let seed = 1;
  const draw = n => { // deterministic
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed % n;
  };
  for (const path of files(`${corpus}/0.1.0`)) {
    const bytes = readFileSync(path);
    for (let k = 0; k < 6; k++) {
      try {
        whole(forged(bytes, h => {
          let node = h, last;
          for (;;) {
            const keys = Object.keys(node);
            if (!keys.length) return;
            last = keys[draw(keys.length)];
            if (node[last] === null || typeof node[last] !== 'object' || draw(6) === 0) break;
            node = node[last];
          }
          node[last] = junk[draw(junk.length)];
        }));
      } catch (e) {
        assert.ok(e instanceof Refusal, `${path}: ${e.stack}`);
      }
    }
  }
});

test('missing params have their defaults', () => {
  const call = readFileSync(`${corpus}/0.1.0/while.lamina`), before = evaluate(whole(call));
  const after = evaluate(whole(forged(call, h => {
    for (const p of h.programs) for (const e of p.eqns) if (e[3].max_iters === null) delete e[3].max_iters;
  })));
  assert.deepStrictEqual(after, before);
  refused(forged(call, h => { for (const p of h.programs) for (const e of p.eqns) delete e[3].cond_nconsts; }), /cond_nconsts is missing/);
});

test('elements of every dtype can be written and read', () => {
  const view = new DataView(new ArrayBuffer(16));
  for (const name of ['f16', 'bf16', 'f8_e5m2', 'f8_e3m4', 'f8_e4m3', 'f8_e4m3fn', 'f8_e4m3fnuz', 'f8_e5m2fnuz', 'f8_e4m3b11fnuz',
    'f4_e2m1fn', 'f6_e2m3fn', 'f6_e3m2fn', 'f8_e8m0fnu', 'f32', 'f64']) {
    const d = dtypeNamed(name);
    for (const x of [1, 0.5, 2, 1.5, 4]) {
      writeElement(d, view, 0, rounded(d, x));
      assert.ok(Object.is(readElement(d, view, 0), rounded(d, x)), `${name} ${x}`);
    }
  }
});
