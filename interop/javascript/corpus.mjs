// Reads, checks and evaluates every file of a corpus (docs/file_formats/saved-programs.md, docs/guides/exported-functions.md), and compares with the
// results in it.
//
// usage: node corpus.mjs FOLDER
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { argv, exit } from 'node:process';
import { checkAll } from './check.mjs';
import { difference, differenceOf, typesDifference } from './compare.mjs';
import { Axes, evaluate } from './evaluate.mjs';
import { call, readExported } from './exported.mjs';
import { read } from './file.mjs';
import { host } from './host.mjs';

const AXES = new Axes([['i', 4], ['j', 2]]); // the axes of files whose collectives are bound by no map

export function files(folder) {
  return readdirSync(folder).sort().flatMap(name => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? files(path) : /\.(lamina|lamexp)$/.test(path) ? [path] : [];
  });
}

const load = path => {
  const found = read(readFileSync(path));
  checkAll(found.programs);
  return found.main;
};

const NEVER_THE_SAME = new Set(['io_callback', 'debug_callback', 'rng_uniform']); // their types are compared alone

// A file without arguments holds, per equation, its results, and then what they were when it was written.
function samples(program) {
  const outs = evaluate(program, [], AXES, host), n = outs.length / 2;
  let at = 0;
  for (const eqn of program.eqns) {
    const end = at + eqn.outvars.length, got = outs.slice(at, end), wanted = outs.slice(n + at, n + end);
    const found = NEVER_THE_SAME.has(eqn.op) ? typesDifference(got, wanted) : differenceOf(eqn.op, got, wanted);
    if (found) return `${eqn.op}: ${found}`;
    at = end;
  }
  return at === n ? null : 'there are not as many results as were written';
}

// Beside a file with arguments stands one with arguments, then results.
function withArguments(program, path) {
  const values = load(path.replace(/\.lamina$/, '.values.lamina')), all = evaluate(values);
  const args = all.slice(0, program.invars.length), wanted = all.slice(program.invars.length);
  return compared(evaluate(program, args, new Axes(), host), wanted);
}

function compared(got, wanted) {
  if (got.length !== wanted.length) return 'there are not as many results as were written';
  const at = got.findIndex((x, i) => difference(x, wanted[i]));
  return at < 0 ? null : `result ${at}: ${difference(got[at], wanted[at])}`;
}

// Beside an exported function stand the values of a call, and those of a call of its derivative.
function exported(path) {
  for (let made = readExported(readFileSync(path)), end = '.values.lamina'; made; made = made.derivative, end = `.vjp${end}`) {
    const all = evaluate(load(path.replace(/\.lamexp$/, end))), n = made.ins.filter(t => t.dtype.name !== 'float0').length;
    const found = compared(call(made, all.slice(0, n), host), all.slice(n));
    if (found) return `${made.name}: ${found}`;
  }
  return null;
}

export function problem(path) {
  if (path.endsWith('.lamexp')) return exported(path);
  const program = load(path);
  return program.invars.length ? withArguments(program, path) : samples(program);
}

if (argv[1]?.endsWith('corpus.mjs')) {
  const folder = argv[2], all = files(folder).filter(path => !path.endsWith('.values.lamina'));
  let failed = 0;
  for (const path of all) {
    let found;
    try {
      found = problem(path);
    } catch (e) {
      found = e.stack;
    }
    if (found) {
      failed += 1;
      console.log(`${relative(folder, path)}: ${found}`);
    }
  }
  console.log(`${all.length} files, ${failed} failed`);
  exit(failed || !all.length ? 1 : 0);
}
