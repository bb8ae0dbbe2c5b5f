// What this reader throws where a file is not as docs/file_formats/saved-programs.md says, or needs what this reader has not.

export class Refusal extends Error {}

export function refuse(message) {
  throw new Refusal(message);
}
