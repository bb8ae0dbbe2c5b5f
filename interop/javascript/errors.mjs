// The error for files that do not conform to docs/reference/saved-programs.md, or that need an unsupported feature.

export class Refusal extends Error {}

export function refuse(message) {
  throw new Refusal(message);
}
