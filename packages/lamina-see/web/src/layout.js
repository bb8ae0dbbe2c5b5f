// Positions of the boxes of an unfolded node: each unfolded node is laid out on its own, from inside to outside.
import { Graph, layout as dagreLayout } from "@dagrejs/dagre";

const LETTER = 6.7, PAD = 12, HEAD = 26;

function leafSize(tree, node) {
  if (node.type === "equation") return { width: Math.max(56, (node.title.length + node.note.length + 1) * LETTER + 22), height: 24 };
  return { width: Math.max(120, (node.title.length + 7) * 7.1 + 34, tree.note(node).length * 6.4 + 44), height: 42 };
}

// Remove the long edges that a chain of other edges implies, so that these do not spread the boxes; return them.
function takeFarEdges(pairs, n) {
  const next = Array.from({ length: n }, () => []);
  for (const key of pairs.keys()) {
    const from = Math.floor(key / n), to = key % n;
    if (from < to) next[from].push(to);
  }
  const far = [];
  for (const key of [...pairs.keys()]) {
    const from = Math.floor(key / n), to = key % n;
    if (to - from <= 4) continue;
    const seen = new Set(), open = next[from].filter((k) => k < to);
    while (open.length) {
      const k = open.pop();
      if (seen.has(k)) continue;
      seen.add(k);
      for (const m of next[k]) if (m <= to) open.push(m);
    }
    if (seen.has(to)) { far.push({ from, to }); pairs.delete(key); }
  }
  return far;
}

export function layoutNode(tree, node, open, kept) {
  if (!node.raw || !open.has(node.key)) return { node, ...leafSize(tree, node), boxes: null };
  const inner = tree.items(node).map((item) => layoutNode(tree, item, open, kept));
  const stamp = inner.map((box) => `${box.node.key} ${box.width} ${box.height}`).join("|");
  const old = kept.get(node.key);
  if (old && old.stamp === stamp) {
    inner.forEach((box, k) => Object.assign(box, old.places[k]));
    return { node, width: old.width, height: old.height, boxes: inner, edges: old.edges, far: old.far };
  }
  const owner = new Map();
  inner.forEach((box, k) => { for (const e of box.node.equations) owner.set(e, k); });
  const pairs = new Map();
  for (const e of node.equations) {
    const to = owner.get(e);
    for (const v of tree.f.equations[e].operands) {
      const producer = tree.producers.get(v);
      const from = producer === undefined ? undefined : owner.get(producer);
      if (from !== undefined && from !== to) pairs.set(from * inner.length + to, (pairs.get(from * inner.length + to) || 0) + 1);
    }
  }
  const far = takeFarEdges(pairs, inner.length);
  const linked = new Set();
  for (const key of pairs.keys()) { linked.add(Math.floor(key / inner.length)); linked.add(key % inner.length); }
  const g = new Graph();
  g.setGraph({ rankdir: "TB", nodesep: 14, ranksep: 22, edgesep: 8, marginx: 0, marginy: 0 });
  g.setDefaultEdgeLabel(() => ({}));
  inner.forEach((box, k) => { if (linked.has(k)) g.setNode(String(k), { width: box.width, height: box.height }); });
  for (const key of pairs.keys()) g.setEdge(String(Math.floor(key / inner.length)), String(key % inner.length));
  let width = 0, height = 0;
  const edges = [];
  if (linked.size) {
    dagreLayout(g);
    for (const k of linked) {
      const at = g.node(String(k)), box = inner[k];
      box.x = at.x - box.width / 2;
      box.y = at.y - box.height / 2;
    }
    for (const edge of g.edges()) edges.push({ from: Number(edge.v), to: Number(edge.w), points: g.edge(edge).points });
    // Edges may leave the area of the boxes, so both count.
    let left = Infinity, top = Infinity;
    for (const k of linked) { left = Math.min(left, inner[k].x); top = Math.min(top, inner[k].y); }
    for (const edge of edges) for (const p of edge.points) { left = Math.min(left, p.x); top = Math.min(top, p.y); }
    for (const k of linked) {
      inner[k].x -= left; inner[k].y -= top;
      width = Math.max(width, inner[k].x + inner[k].width);
      height = Math.max(height, inner[k].y + inner[k].height);
    }
    for (const edge of edges) edge.points = edge.points.map((p) => { width = Math.max(width, p.x - left); return { x: p.x - left, y: p.y - top }; });
  }
  // Boxes without edges: rows below the others.
  const limit = Math.max(width, 520);
  let x = 0, y = height ? height + 18 : 0, row = 0;
  inner.forEach((box, k) => {
    if (linked.has(k)) return;
    if (x && x + box.width > limit) { x = 0; y += row + 12; row = 0; }
    box.x = x; box.y = y;
    x += box.width + 12;
    row = Math.max(row, box.height);
    width = Math.max(width, box.x + box.width);
    height = Math.max(height, y + box.height);
  });
  const least = (node.title.length + 8) * LETTER + 40;
  const shift = Math.max(0, (least - width - 2 * PAD) / 2);
  for (const box of inner) { box.x += PAD + shift; box.y += HEAD + 6; }
  for (const edge of edges) edge.points = edge.points.map((p) => ({ x: p.x + PAD + shift, y: p.y + HEAD + 6 }));
  const size = { width: Math.max(width + 2 * PAD, least), height: height + HEAD + 6 + PAD };
  kept.set(node.key, { stamp, ...size, edges, far, places: inner.map(({ x, y }) => ({ x, y })) });
  return { node, ...size, boxes: inner, edges, far };
}
