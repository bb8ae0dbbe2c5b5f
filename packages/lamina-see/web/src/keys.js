// The keyboard, and the dialog that describes it.
import { h } from "./dom.js";

const KEYS = [
  ["1 … 9, 0", "go to a pane, by its number"], ["j, k", "select the next or the previous line with facts"], ["m", "change the metric of the bars: time, memory, operations, bytes"],
  ["[ , ]", "show the previous or the next function"], ["p", "select the peak of memory"], ["← , →", "move the chosen instant of memory; in the time line, move in time"],
  ["u", "unfold the program to the selection"], ["f", "fold the program"], ["+, −", "zoom the program, or the time line if it has the focus"],
  ["Tab, Enter", "walk through lines, boxes and rows; select one"], ["Space", "unfold or fold the focused box"], ["Esc", "clear the selection"], ["t", "dark or light"], ["?", "this help"],
];
const PANES = [
  ["Source", "bars show the time of each line: forward, backward, recomputed"], ["Program", "equations as a graph; boxes fold named scopes, called functions, loops and repeated parts"],
  ["Memory", "live bytes over the schedule, loops once; click an instant for the values that are alive, by line; drag to zoom, double click to see all"], ["Time line", "what each device ran in one measured step; drag moves, double click and Ctrl with the wheel zoom"],
  ["Compilations", "each compilation with its time, and why no compiled program was found"], ["Devices and placements", "which device holds which block of a value"],
];

let dialog = null;

export function showHelp() {
  if (!dialog) {
    const list = (rows, tag) => h("dl", {}, rows.map(([name, text]) => [h("dt", {}, h(tag, {}, name)), h("dd", {}, text)]));
    dialog = h("dialog", { class: "help", "aria-label": "help" }, h("h2", {}, "Keys"), list(KEYS, "kbd"), h("h2", {}, "Panes"), list(PANES, "b"),
      h("form", { method: "dialog" }, h("button", {}, "Close")));
    dialog.addEventListener("click", (e) => { if (e.target === dialog) dialog.close(); });
    document.body.append(dialog);
  }
  if (dialog.open) { dialog.close(); return; }
  dialog.showModal();
  dialog.scrollTop = 0; // the focus is on the button at its end
}

export function installKeys(actions) {
  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
    const tag = document.activeElement ? document.activeElement.tagName : "";
    if (tag === "SELECT" || tag === "INPUT") { if (e.key === "Escape") document.activeElement.blur(); else return; }
    if (e.key === "?") { showHelp(); return; }
    if (dialog && dialog.open) return;
    const table = {
      t: () => actions.theme(), j: () => actions.line?.(1), k: () => actions.line?.(-1), m: () => actions.metric?.(), p: () => actions.peak?.(), u: () => actions.reveal?.(), f: () => actions.fold?.(),
      "[": () => actions.next?.(-1), "]": () => actions.next?.(1), "+": () => actions.zoom?.(1.25), "=": () => actions.zoom?.(1.25), "-": () => actions.zoom?.(0.8),
      ArrowLeft: () => actions.instant?.(-1), ArrowRight: () => actions.instant?.(1), Escape: () => actions.clear?.(),
    };
    if (/^[0-9]$/.test(e.key)) actions.jump?.(e.key === "0" ? 9 : Number(e.key) - 1);
    else if (table[e.key]) table[e.key]();
    else return;
    e.preventDefault();
  });
}
