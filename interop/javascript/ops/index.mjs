// All primitives of this reader, by name, at version 1.
import { refuse } from '../errors.mjs';
import { ops as collectives } from './collectives.mjs';
import { ops as control } from './control.mjs';
import { ops as elementwise } from './elementwise.mjs';
import { ops as factorizations } from './factorizations.mjs';
import { ops as indexing } from './indexing.mjs';
import { ops as products } from './products.mjs';
import { ops as reductions } from './reductions.mjs';
import { ops as shape } from './shape.mjs';
import { ops as sorting } from './sorting.mjs';

export const table = new Map(Object.entries({ ...collectives, ...control, ...elementwise, ...factorizations, ...indexing, ...products,
                                              ...reductions, ...shape, ...sorting }));

export function opNamed(name, version = 1) {
  const op = table.get(name) ?? refuse(`this reader has no op named \`${name}\``);
  if (version !== 1) refuse(`the file uses version ${version} of \`${name}\`; this reader has version 1`);
  return op;
}
