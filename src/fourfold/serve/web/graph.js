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
/** Where a relation is written on its line, if there is room. */
const ALONG = [0.5, 0.6, 0.4, 0.7, 0.3];
const NAME_LETTERS = 22;
/** Pixels: the drawing is as wide as the screen allows, so that its letters keep their size. */
const [WIDEST, HIGHEST, LOWEST] = [720, 460, 110];
const [MARGIN, SIDE, EDGE] = [30, 50, 30];
const LINE = 13;
/** How much more one axis may be stretched than the other, and how much both. */
const [STRETCH, ZOOM] = [1.6, 1.5];
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

  /** @param {string} name @param {boolean} walking Whether the focus follows to the node. @returns {Promise<{nodes: GraphNode[], edges: Edge[]} | null>} What is drawn. */
  async draw(name, walking = this.place.contains(document.activeElement)) {
    const { ns } = this.context.state();
    try {
      const around = await call('GET', inside(ns, '/graph/around'), { query: { name, depth: this.depth, limit: DRAWN_NODES } });
      const depth = button(this.depth === 1 ? 'Two steps' : 'One step', () => {
        this.depth = 3 - this.depth;
        this.draw(name);
      });
      const told = el('p', { class: 'told' }, el('strong', {}, bdi(name)), ` · ${counted(around.total, 'node')}, ${counted(around.edges.length, 'edge')} within ${counted(this.depth, 'step')}${mentions(around.nodes, around.edges).length ? ' · dashed: a text mentions it' : ''} `, depth);
      if (around.total > DRAWN_NODES) await this._table(name, told, around.total);
      else replace(this.place, told, this._drawing(around), this._edges(around.edges));
      if (walking) /** @type {HTMLElement | null} */ (this.place.querySelector('.node, .link'))?.focus();
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
    const mentioned = mentions(nodes, stored);
    const width = Math.min(WIDEST, innerWidth - MARGIN);
    const { places, height } = arranged(nodes, [...stored, ...mentioned], width);
    const at = (/** @type {string} */ name) => places.get(name) ?? places.get(bare(name)) ?? { x: width / 2, y: height / 2 };
    const written = writing(nodes.map((node) => at(node.name)), width);
    const dots = nodes.map((node) => this._dot(node, at(node.name), written));
    /** @param {Edge} edge */
    const line = ({ from, relation, to, weight }) => {
      const [a, b] = [at(from), at(to)];
      const name = svg('title', {}, `${from} ${relation} ${to}`);
      return svg('line', { x1: a.x, y1: a.y, x2: b.x, y2: b.y, 'stroke-width': 1 + 1.5 * weight, class: weight ? '' : 'mention' }, name);
    };
    const relations = stored.length <= LABELLED_EDGES ? stored.map(({ from, relation, to }) => written(relation, ALONG.map((way) => between(at(from), at(to), way)), 'relation')) : [];
    const lines = svg('g', { class: 'edges' }, [...mentioned, ...stored].map(line));
    return svg('svg', { class: 'graph-drawing', viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': 'Graph' }, lines, relations, dots);
  }

  /** @param {GraphNode} node @param {Point} place @param {(text: string, places: Point[]) => any} written */
  _dot({ name, label, distance }, { x, y }, written) {
    const go = () => this.walk(name);
    const key = (/** @type {KeyboardEvent} */ event) => (event.key === 'Enter' || event.key === ' ') && (event.preventDefault(), go());
    return svg(
      'g',
      { class: `node step-${Math.min(distance, 2)}`, role: 'button', tabindex: '0', data: { name }, on: { click: go, keydown: key } },
      svg('circle', { cx: x, cy: y, r: distance === 0 ? 9 : 6 }),
      written(name.length > NAME_LETTERS ? `${name.slice(0, NAME_LETTERS - 1)}…` : name, [{ x, y: y - 12 }, { x, y: y + 20 }]),
      svg('title', {}, `${name}, ${label}`),
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

/** @param {Point} a @param {Point} b @param {number} way @returns {Point} */
const between = (a, b, way) => ({ x: a.x + way * (b.x - a.x), y: a.y + way * (b.y - a.y) });

/** Writes a text at the first of some places where it covers neither a node nor another text, or nowhere. @param {Point[]} nodes @param {number} width */
function writing(nodes, width) {
  const taken = nodes.map(({ x, y }) => ({ x, y: y + 4, half: 8 }));
  const ruler = /** @type {OffscreenCanvasRenderingContext2D} */ (new OffscreenCanvas(1, 1).getContext('2d'));
  ruler.font = `12px ${getComputedStyle(document.documentElement).fontFamily}`;
  return (/** @type {string} */ text, /** @type {Point[]} */ places, kind = '') => {
    const half = ruler.measureText(text).width / 2 + 2;
    const boxes = places.map(({ x, y }) => ({ x: Math.min(Math.max(x, half), width - half), y, half }));
    const free = boxes.find((box) => taken.every((other) => Math.abs(box.x - other.x) > box.half + other.half || Math.abs(box.y - other.y) > LINE));
    if (!free) return null;
    taken.push(free);
    return svg('text', { class: kind, x: free.x, y: free.y }, text);
  };
}

/** Places of the nodes by repulsion and springs; the same in every run. @param {GraphNode[]} nodes @param {Edge[]} edges @param {number} width */
function arranged(nodes, edges, width) {
  const names = nodes.map((node) => node.name);
  const index = new Map(names.map((name, place) => [name, place]));
  const find = (/** @type {string} */ name) => index.get(name) ?? index.get(bare(name));
  const springs = edges.map((edge) => [find(edge.from), find(edge.to)]).filter(([a, b]) => a !== undefined && b !== undefined);
  const points = nodes.map((node, place) => {
    const turn = (place - 1) * 2.39996; // the golden angle spreads them evenly; two nodes lie side by side
    const far = node.distance === 0 ? 0 : 40 + 12 * Math.sqrt(place);
    return { x: far * Math.cos(turn), y: far * Math.sin(turn) };
  });
  const ideal = Math.sqrt((width * HIGHEST) / (nodes.length + 1)) * 0.75;
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
  return fitted(names, points, width);
}

/** Scales the points into the drawing, which is as high as they need. @param {string[]} names @param {Point[]} points @param {number} width */
function fitted(names, points, width) {
  const spread = (/** @type {number[]} */ all) => ({ middle: (Math.min(...all) + Math.max(...all)) / 2, length: Math.max(...all) - Math.min(...all) || 1 });
  const [x, y] = [spread(points.map((point) => point.x)), spread(points.map((point) => point.y))];
  const [wide, high] = [Math.min((width - 2 * SIDE) / x.length, ZOOM), Math.min((HIGHEST - 2 * EDGE) / y.length, ZOOM)];
  const [across, down] = [Math.min(wide, high * STRETCH), Math.min(high, wide * STRETCH)];
  const height = Math.max(y.length * down + 2 * EDGE, LOWEST);
  const places = points.map((point) => ({ x: width / 2 + (point.x - x.middle) * across, y: height / 2 + (point.y - y.middle) * down }));
  return { places: new Map(names.map((name, place) => [name, places[place]])), height };
}
