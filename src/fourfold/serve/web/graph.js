// @ts-check
/** The local graph around a node: drawn up to 200 nodes, as a table beyond; click or press Enter to walk. */
import { call, inside, Problem } from './api.js';
import { bdi, button, count, counted, el, replace, svg, table } from './dom.js';

/** @typedef {{id: number, name: string, label: string, item_id: number | null, distance: number}} GraphNode */
/** @typedef {{from: string, relation: string, to: string, weight: number}} Edge */
/** @typedef {{x: number, y: number}} Point */

/** A node by the name that an edge has for it, which may end with its label: Name#label. @param {string} name */
export const bare = (name) => name.replace(/#[^#]*$/, '');

/** Edges of nodes next to the first that no stored edge reaches: a text mentions the other. @param {GraphNode[]} nodes @param {Edge[]} edges @returns {Edge[]} */
function mentions([start, ...rest], edges) {
  const reached = new Set(edges.flatMap((edge) => [edge.from, bare(edge.from), edge.to, bare(edge.to)]));
  const alone = rest.filter((node) => node.distance === 1 && !reached.has(node.name));
  return alone.map((node) => ({ from: start.name, relation: MENTION, to: node.name, weight: 0 }));
}

const DRAWN_NODES = 200;
const LABELLED_EDGES = 16;
const ROUNDS = 220;
const [WIDTH, HEIGHT] = [720, 460];
const PAGE = 100;
const GRAVITY = 0.4;
const MENTION = 'mentions';

export class GraphView {
  /** @param {import('./item.js').Context} context */
  constructor(context) {
    this.context = context;
    this.depth = 1;
    this.place = el('div', { class: 'graph-view' });
  }

  /** @param {string} name @returns {Promise<{nodes: GraphNode[], edges: Edge[]} | null>} What is drawn. */
  async draw(name) {
    const { ns } = this.context.state();
    try {
      const around = await call('GET', inside(ns, '/graph/around'), { query: { name, depth: this.depth, limit: DRAWN_NODES } });
      const depth = button(`${this.depth === 1 ? 'Two steps' : 'One step'}`, () => {
        this.depth = 3 - this.depth;
        this.draw(name);
      });
      const told = el('p', { class: 'told' }, el('strong', {}, bdi(name)), ` · ${counted(around.total, 'node')}, ${counted(around.edges.length, 'edge')} within ${counted(this.depth, 'step')} `, depth);
      if (around.total > DRAWN_NODES) await this._table(name, told, around.total);
      else replace(this.place, told, this._drawing(around), this._edges(around.edges));
      return around;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      replace(this.place, el('p', { class: 'warning', role: 'alert' }, `${error.message}. ${error.remedy}`));
      return null;
    }
  }

  /** @param {string} name */
  walk(name) {
    this.context.go({ node: name });
  }

  /** @param {{nodes: GraphNode[], edges: Edge[]}} around */
  _drawing({ nodes, edges: stored }) {
    const edges = [...stored, ...mentions(nodes, stored)];
    const places = arranged(nodes, edges);
    const at = (/** @type {string} */ name) => places.get(name) ?? places.get(bare(name)) ?? { x: WIDTH / 2, y: HEIGHT / 2 };
    const lines = edges.map((edge) => {
      const [a, b] = [at(edge.from), at(edge.to)];
      const line = svg('line', { x1: a.x, y1: a.y, x2: b.x, y2: b.y, 'stroke-width': 1 + 1.5 * edge.weight, class: edge.relation === MENTION && !edge.weight ? 'mention' : '' }, svg('title', {}, `${edge.from} ${edge.relation} ${edge.to}`));
      const label = edges.length <= LABELLED_EDGES && svg('text', { class: 'relation', x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 }, edge.relation);
      return [line, label];
    });
    const dots = nodes.map((node) => this._dot(node, at(node.name)));
    return svg('svg', { class: 'graph-drawing', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'group', 'aria-label': 'Graph' }, svg('g', { class: 'edges' }, lines.flat()), dots);
  }

  /** @param {GraphNode} node @param {Point} place */
  _dot(node, place) {
    const go = () => this.walk(node.name);
    const key = (/** @type {KeyboardEvent} */ event) => (event.key === 'Enter' || event.key === ' ') && (event.preventDefault(), go());
    return svg(
      'g',
      { class: `node step-${Math.min(node.distance, 2)}`, role: 'button', tabindex: '0', 'aria-label': `${node.name}, ${node.label}`, data: { name: node.name }, on: { click: go, keydown: key } },
      svg('circle', { cx: place.x, cy: place.y, r: node.distance === 0 ? 9 : 6 }),
      svg('text', { x: place.x, y: place.y - 11 }, node.name.length > 26 ? `${node.name.slice(0, 25)}…` : node.name),
      svg('title', {}, `${node.name} (${node.label})`),
    );
  }

  /** @param {Edge[]} edges */
  _edges(edges) {
    const end = (/** @type {string} */ name) => button(bdi(name), () => this.walk(name), { class: 'link' });
    const rows = edges.map((edge) => [end(edge.from), bdi(edge.relation), end(edge.to), String(edge.weight)]);
    return el('details', {}, el('summary', {}, 'As a table'), table('Edges', ['from', 'relation', 'to', 'weight'], rows));
  }

  /** @param {string} name @param {HTMLElement} told @param {number} total */
  async _table(name, told, total) {
    /** @type {any[][]} */
    const rows = [];
    const next = async (/** @type {string | null} */ cursor) => {
      const query = { name, depth: this.depth, limit: PAGE, cursor };
      const page = await call('GET', inside(this.context.state().ns, '/graph/neighbors'), { query });
      rows.push(...page.neighbors.map((/** @type {any} */ each) => [button(bdi(each.name), () => this.walk(each.name), { class: 'link' }), each.label, bdi(each.relation), String(each.distance), String(each.weight)]));
      const more = page.next_cursor && button(`Show more of ${count(page.total)}`, () => next(page.next_cursor));
      const shown = table(`More than ${DRAWN_NODES} nodes: not drawn`, ['node', 'label', 'relation', 'steps', 'weight'], rows, { class: 'neighbors' });
      replace(this.place, told, shown, more);
    };
    await next(null);
  }
}

/** Places of the nodes by repulsion and springs; the same in every run. @param {GraphNode[]} nodes @param {Edge[]} edges @returns {Map<string, Point>} */
function arranged(nodes, edges) {
  const names = nodes.map((node) => node.name);
  const index = new Map(names.map((name, place) => [name, place]));
  const find = (/** @type {string} */ name) => index.get(name) ?? index.get(bare(name));
  const springs = edges.map((edge) => [find(edge.from), find(edge.to)]).filter(([a, b]) => a !== undefined && b !== undefined);
  const points = nodes.map((node, place) => {
    const turn = place * 2.39996; // the golden angle spreads them evenly
    const far = node.distance === 0 ? 0 : 40 + 12 * Math.sqrt(place);
    return { x: far * Math.cos(turn), y: far * Math.sin(turn) };
  });
  const ideal = Math.sqrt((WIDTH * HEIGHT) / (nodes.length + 1)) * 0.75;
  for (let round = 0; round < ROUNDS; round++) {
    const moves = points.map(() => ({ x: 0, y: 0 }));
    const push = (/** @type {number} */ i, /** @type {number} */ j, /** @type {(d: number) => number} */ force) => {
      const dx = points[i].x - points[j].x || 0.01 * (i - j);
      const dy = points[i].y - points[j].y || 0.01;
      const d = Math.hypot(dx, dy);
      const f = force(d) / d;
      moves[i].x += dx * f;
      moves[i].y += dy * f;
      moves[j].x -= dx * f;
      moves[j].y -= dy * f;
    };
    for (let i = 0; i < points.length; i++) for (let j = 0; j < i; j++) push(i, j, (d) => (ideal * ideal) / d);
    for (const [a, b] of springs) if (a !== b) push(/** @type {number} */ (a), /** @type {number} */ (b), (d) => -(d * d) / ideal);
    const most = 30 * (1 - round / ROUNDS);
    points.forEach((point, place) => {
      moves[place].x -= GRAVITY * point.x;
      moves[place].y -= GRAVITY * point.y;
      const length = Math.hypot(moves[place].x, moves[place].y) || 1;
      point.x += (moves[place].x / length) * Math.min(length, most);
      point.y += (moves[place].y / length) * Math.min(length, most);
    });
  }
  return fitted(names, points);
}

/** Scales the points into the drawing. @param {string[]} names @param {Point[]} points */
function fitted(names, points) {
  const [xs, ys] = [points.map((p) => p.x), points.map((p) => p.y)];
  const fit = (/** @type {number} */ value, /** @type {number[]} */ all, /** @type {number} */ size, /** @type {number} */ margin) => {
    const [low, high] = [Math.min(...all), Math.max(...all)];
    return high > low ? margin + ((value - low) / (high - low)) * (size - 2 * margin) : size / 2;
  };
  return new Map(names.map((name, place) => [name, { x: fit(points[place].x, xs, WIDTH, 95), y: fit(points[place].y, ys, HEIGHT, 28) }]));
}
