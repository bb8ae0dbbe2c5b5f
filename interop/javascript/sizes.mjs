// Symbolic sizes: strings to functions of the names' values, and the values from shapes, see docs/how-to/exported-functions.md.
import { refuse } from './errors.mjs';

const floordiv = (x, y) => {
  if (y === 0n) refuse('a size is divided by 0');
  const q = x / y;
  return x % y !== 0n && (x < 0n) !== (y < 0n) ? q - 1n : q;
};
const BINARY = { floordiv, mod: (x, y) => x - y * floordiv(x, y), max: (x, y) => (x > y ? x : y), min: (x, y) => (x < y ? x : y) };
const MAX_DEPTH = 200; // of nested expressions

// A size: {text, names, at}; `at(values)` is its value, a BigInt, for a Map of values of its names.
class Parser {
  constructor(text) {
    this.text = text;
    this.tokens = text.match(/[A-Za-z_]\w*|\d+|>=|<=|==|\S/g) ?? [];
    this.names = new Set();
    this.depth = 0;
  }

  take(token) {
    if (this.tokens[0] !== token) return false;
    this.tokens.shift();
    return true;
  }

  need(token) {
    if (!this.take(token)) this.wrong();
  }

  wrong() {
    refuse(`the size ${JSON.stringify(this.text)} is not understood`);
  }

  sum() {
    if (++this.depth > MAX_DEPTH) this.wrong();
    const parts = [[this.take('-') ? -1n : 1n, this.product()]];
    while (this.tokens[0] === '+' || this.tokens[0] === '-') parts.push([this.tokens.shift() === '-' ? -1n : 1n, this.product()]);
    this.depth -= 1;
    return v => parts.reduce((n, [sign, part]) => n + sign * part(v), 0n);
  }

  product() {
    const parts = [this.power()];
    while (this.take('*')) parts.push(this.power());
    return v => parts.reduce((n, part) => n * part(v), 1n);
  }

  power() {
    const x = this.factor();
    if (!this.take('^')) return x;
    const token = this.tokens.shift() ?? '';
    if (!/^\d{1,3}$/.test(token)) this.wrong();
    return v => x(v) ** BigInt(token);
  }

  factor() {
    const token = this.tokens.shift() ?? this.wrong();
    if (/^\d+$/.test(token)) return () => BigInt(token);
    if (token === '-') {
      if (++this.depth > MAX_DEPTH) this.wrong();
      const x = this.factor();
      return v => -x(v);
    }
    if (token === '(') {
      const x = this.sum();
      this.need(')');
      return x;
    }
    if (!/^[A-Za-z_]/.test(token)) this.wrong();
    if (!(Object.hasOwn(BINARY, token) && this.take('('))) {
      this.names.add(token);
      return v => v.get(token) ?? refuse(`the size ${token} is not known`);
    }
    const x = this.sum();
    this.need(',');
    const y = this.sum();
    this.need(')');
    return v => BINARY[token](x(v), y(v));
  }
}

export function sizeOfText(size) {
  if (Number.isSafeInteger(size)) return { text: String(size), names: new Set(), at: () => BigInt(size) };
  if (typeof size !== 'string') refuse(`${JSON.stringify(size)} is no size`);
  const parser = new Parser(size), at = parser.sum();
  if (parser.tokens.length) parser.wrong();
  return { text: size, names: parser.names, at };
}

// A constraint: {text, names, holds}.
export function constraintOfText(text) {
  const [, left, sign, right] = /^(.*?)(>=|<=|==)(.*)$/s.exec(String(text)) ?? refuse(`the constraint ${JSON.stringify(text)} is not understood`);
  const [x, y] = [left, right].map(sizeOfText);
  const holds = { '>=': (a, b) => a >= b, '<=': (a, b) => a <= b, '==': (a, b) => a === b }[sign];
  return { text, names: new Set([...x.names, ...y.names]), holds: values => holds(x.at(values), y.at(values)) };
}

// [factor, rest] of a size that is `factor * name + rest` if the other names are known; null if it has another form, tested at four
// values, or if this is unknown.
function linear(size, name, known) {
  const at = n => size.at(new Map([...known, [name, n]]));
  try {
    const [a, b, c, d] = [at(1n), at(2n), at(3n), at(1000n)], step = b - a;
    return step !== 0n && c - b === step && d - c === 997n * step ? [step, a - step] : null;
  } catch {
    return null; // division by zero
  }
}

// The values of all names, computed from pairs [size, length].
export function solveSizes(names, pairs, constraints) {
  const known = new Map();
  for (let going = true; going && known.size < names.length;) {
    going = false;
    for (const [size, length] of pairs) {
      const open = [...size.names].filter(name => !known.has(name));
      const found = open.length === 1 ? linear(size, open[0], known) : null;
      if (found === null) continue;
      const [factor, rest] = found, n = (BigInt(length) - rest) / factor;
      if (n * factor + rest !== BigInt(length) || n < 1n) refuse(`a size is to be ${size.text}; ${length} is that for no ${open[0]} of at least 1`);
      known.set(open[0], n);
      going = true;
    }
  }
  const missing = names.filter(name => !known.has(name));
  if (missing.length) refuse(`the arguments do not determine the sizes ${missing}`);
  for (const [size, length] of pairs) {
    if (size.at(known) !== BigInt(length)) refuse(`a size must be ${size.text} = ${size.at(known)}; got ${length}`);
  }
  const broken = constraints.find(c => !c.holds(known));
  if (broken) refuse(`the sizes of the arguments must keep ${broken.text}`);
  return known;
}
