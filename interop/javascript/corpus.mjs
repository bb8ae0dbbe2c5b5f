// Read, check and evaluate every file of a corpus (docs/reference/saved-programs.md, docs/how-to/exported-functions.md), and compare with
// the results in it.
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

const AXES = new Axes([['i', 4], ['j', 2]]); // the axes of files with collectives outside of a map

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

const NOT_REPRODUCIBLE = new Set(['io_callback', 'debug_callback', 'rng_uniform']); // only their types are compared

// Check a file without arguments: it contains the results of each equation, and then the results when it was written.
function checkSamples(program) {
  const outs = evaluate(program, [], AXES, host), n = outs.length / 2;
  let at = 0;
  for (const eqn of program.eqns) {
    const end = at + eqn.outvars.length, got = outs.slice(at, end), expected = outs.slice(n + at, n + end);
    const found = NOT_REPRODUCIBLE.has(eqn.op) ? typesDifference(got, expected) : differenceOf(eqn.op, got, expected);
    if (found) return `${eqn.op}: ${found}`;
    at = end;
  }
  return at === n ? null : 'the number of results differs from the file';
}

// Check a file with arguments: a second file contains the arguments, then the results.
function checkWithArguments(program, path) {
  const values = load(path.replace(/\.lamina$/, '.values.lamina')), all = evaluate(values);
  const args = all.slice(0, program.invars.length), expected = all.slice(program.invars.length);
  return compareAll(evaluate(program, args, new Axes(), host), expected);
}

function compareAll(got, expected) {
  if (got.length !== expected.length) return 'the number of results differs from the file';
  const at = got.findIndex((x, i) => difference(x, expected[i]));
  return at < 0 ? null : `result ${at}: ${difference(got[at], expected[at])}`;
}

// Check an exported function: other files contain the values of a call, and those of a call of its derivative.
function checkExported(path) {
  for (let made = readExported(readFileSync(path)), end = '.values.lamina'; made; made = made.derivative, end = `.vjp${end}`) {
    const all = evaluate(load(path.replace(/\.lamexp$/, end))), n = made.ins.filter(t => t.dtype.name !== 'float0').length;
    const found = compareAll(call(made, all.slice(0, n), host), all.slice(n));
    if (found) return `${made.name}: ${found}`;
  }
  return null;
}

export function findProblem(path) {
  if (path.endsWith('.lamexp')) return checkExported(path);
  const program = load(path);
  return program.invars.length ? checkWithArguments(program, path) : checkSamples(program);
}

if (argv[1]?.endsWith('corpus.mjs')) {
  const folder = argv[2], all = files(folder).filter(path => !path.endsWith('.values.lamina'));
  let failed = 0;
  for (const path of all) {
    let found;
    try {
      found = findProblem(path);
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
