// Bundle the page: src/main.js and src/page.css, with uPlot and dagre, into ../src/lamina_see/_page/assets.
// `--check` compares the result with the committed files instead of writing them; exit status 1 if one differs.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "..", "src", "lamina_see", "_page", "assets");
const bundled = ["uplot", "@dagrejs/dagre", "@dagrejs/graphlib"];

async function bundle(entry, options) {
  const result = await build({
    entryPoints: [join(here, "src", entry)], bundle: true, minify: true, charset: "ascii", write: false,
    legalComments: "none", logLevel: "error", ...options,
  });
  return result.outputFiles[0].text;
}

function licences() {
  const parts = ["Licences of the libraries that page.js and page.css contain."];
  for (const name of bundled) {
    const folder = join(here, "node_modules", name);
    const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    parts.push(`${name} ${about.version} (${about.license})\n\n${readFileSync(join(folder, "LICENSE"), "utf8").trim()}`);
  }
  return parts.join(`\n\n${"-".repeat(80)}\n\n`) + "\n";
}

// A check without Node.js compares this with the sources, so a change that was not built is found everywhere.
function hashOfSources() {
  const hash = createHash("sha256");
  const names = ["build.mjs", "package-lock.json", ...readdirSync(join(here, "src")).map((name) => `src/${name}`)].sort();
  for (const name of names) hash.update(`${name}\n`).update(readFileSync(join(here, name)));
  return `${hash.digest("hex")}\n`;
}

const files = {
  // In a script element, `</script` and `<!--` would end or change the script; the strings of minified code have none of them.
  "page.js": await bundle("main.js", { format: "iife", target: "es2022" }),
  "page.css": await bundle("page.css", { target: ["chrome110", "firefox115", "safari16.4"] }),
  "LICENSES.txt": licences(),
  "sources.sha256": hashOfSources(),
};
for (const name of ["page.js", "page.css"]) {
  if (/<\/(script|style)|<!--/i.test(files[name])) throw new Error(`${name} has text that ends an element of HTML`);
}
mkdirSync(out, { recursive: true });
const changed = Object.entries(files).filter(([name, text]) => {
  const path = join(out, name);
  return !existsSync(path) || readFileSync(path, "utf8") !== text;
});
if (process.argv.includes("--check")) {
  for (const [name] of changed) console.error(`${name} is not what the sources build: run npm run build in packages/lamina-see/web`);
  process.exit(changed.length ? 1 : 0);
}
for (const [name, text] of changed) writeFileSync(join(out, name), text);
console.log(Object.entries(files).map(([name, text]) => `${name} ${text.length}`).join(", "));
