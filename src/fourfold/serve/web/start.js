// @ts-check
/** The start: what the namespace holds, before anything is asked. */
import { call, inside } from './api.js';
import { bdi, button, count, counted, el, replace, table } from './dom.js';
import { bare, GraphView } from './graph.js';
import { rendered } from './markdown.js';
import { proposals } from './proposals.js';

/** @typedef {import('./graph.js').Edge} Edge */
/** @typedef {import('./ranking.js').Question} Question */

const NEWEST = 6;
/** How many questions of each kind, and how many together. */
const [QUESTIONS, CHIPS] = [3, 8];
/** How many kinds and tags have a bar, and how much of the line the longest has: the number comes after it. */
const [TALLIED, WIDEST] = [5, 70];
const SNIPPET_CHARACTERS = 160;

export class Start {
  /**
   * @param {HTMLElement} place @param {import('./item.js').Context} context @param {import('./judge.js').Judgements} judgements
   * @param {{ask: (query: string) => void, open: (id: number) => void, changed: () => void, failed: (error: unknown) => void}} actions
   */
  constructor(place, context, judgements, actions) {
    this.place = place;
    this.judgements = judgements;
    /** @type {string[]} */
    this.questions = [];
    this.actions = actions;
    /** @type {GraphView} */
    this.graph = new GraphView({ ...context, go: ({ node }) => this.graph.draw(node) });
  }

  /** Shows the counts, the newest items that pass the filters, and what is connected most. @param {Question} question @param {any} facets @param {AbortSignal} signal */
  async show({ ns, filters }, facets, signal) {
    const { items, total } = await call('GET', inside(ns, '/items'), { query: { ...filters, limit: NEWEST }, signal });
    const { nodes } = await call('GET', inside(ns, '/graph/nodes'), { query: { limit: 1 }, signal });
    const around = nodes.length ? await this.graph.draw(nodes[0].name) : null;
    const { namespaces } = await call('GET', '/v1/status', { signal });
    const supplied = await call('GET', inside(ns, '/stats'), { query: { limit: 1 }, signal });
    const waits = await proposals(ns, this.actions.changed, this.actions.failed, signal);
    if (signal.aborted) return;
    this.questions = [];
    if (!facets?.items) return replace(this.place, waits, empty());
    const titles = items.map((/** @type {any} */ item) => item.title).filter(Boolean).slice(0, QUESTIONS);
    this.questions = [...this.judgements.answered.slice(-CHIPS), ...asked(around?.edges ?? []), ...titles].slice(0, CHIPS);
    replace(
      this.place,
      counts(facets),
      waiting(namespaces[ns]),
      waits,
      this.asking(),
      section(Object.keys(filters).length ? `Newest of ${counted(total, 'item')} that pass the filters` : 'Newest', el('ol', { class: 'cards' }, items.map((/** @type {any} */ item) => this._card(item)))),
      around && section('Connected most', this.graph.place),
      receipts(supplied),
    );
  }

  /** Questions that what is stored answers: those that were judged last, then relations and titles. */
  asking() {
    const chips = this.questions.map((text) => button(bdi(text), () => this.actions.ask(text), { class: 'chip' }));
    return chips.length > 0 && section('Ask', el('p', {}, chips));
  }

  /** @param {any} item */
  _card({ id, title, content, created_at, tags }) {
    return el(
      'li',
      { class: 'card' },
      el('h3', {}, button(bdi(title || `item ${id}`), () => this.actions.open(id), { class: 'link' })),
      el('p', { class: 'snippet', dir: 'auto' }, rendered(content.length > SNIPPET_CHARACTERS ? `${content.slice(0, SNIPPET_CHARACTERS)} …` : content)),
      el('footer', {}, el('span', { class: 'meta' }, el('time', { datetime: created_at }, created_at.slice(0, 10))), tags.slice(0, 6).map((/** @type {string} */ tag) => el('span', { class: 'tag' }, bdi(tag)))),
    );
  }
}

/** Questions that relations answer in any language, each about another relation: "Heron: depends on?" @param {Edge[]} edges */
function asked(edges) {
  const first = new Map([...edges].reverse().map((edge) => [edge.relation, edge.from]));
  return [...first].slice(0, QUESTIONS).map(([relation, from]) => `${bare(from)}: ${relation.replaceAll(/[-_]/g, ' ')}?`);
}

/** How much there is, and how much of the most frequent kinds and tags. @param {any} facets */
function counts({ items, kinds, tags, languages }) {
  const numbers = [[items, 'item'], [kinds.length, 'kind'], [tags.length, 'tag'], [languages.length, 'language']];
  return el(
    'section',
    { class: 'start', 'aria-label': 'Stored' },
    el('ul', { class: 'counts' }, numbers.filter(([number]) => number).map(([number, name]) => el('li', {}, el('strong', {}, counted(number, name))))),
    el('div', { class: 'tallies' }, tally('Kinds', kinds), tally('Tags', tags)),
  );
}

/** How many items have no vector yet, and how long that takes. @param {{pending_vectors: number, embedding_seconds: number | null}} facts */
function waiting({ pending_vectors: items, embedding_seconds: seconds }) {
  if (!items) return false;
  const left = seconds === null ? '' : seconds < 90 ? `, for about ${Math.ceil(seconds)} s` : `, for about ${Math.round(seconds / 60)} min`;
  return el('p', {}, `${counted(items, 'item')} ${items === 1 ? 'has' : 'have'} no vector yet${left}: words, relations and tags find ${items === 1 ? 'it' : 'them'}.`);
}

/** What interfaces were asked and given. @param {any} stats */
function receipts({ since, supplies, items, never_retrieved: never }) {
  if (!since) return false;
  const rows = supplies.map((/** @type {any} */ each) => [each.via, ...[each.asked, each.answered, each.unknown, each.items].map(count)]);
  return section('Receipts', [
    table(`Since ${since.slice(0, 10)}`, ['asked through', 'times', 'answered', 'unknown', 'items given'], rows),
    el('p', { class: 'note' }, `Never an answer yet: ${count(never)} of ${counted(items, 'item')}.`),
  ]);
}

/** @param {string} title @param {{name: string, items: number}[]} counts The largest first. */
function tally(title, counts) {
  const rows = counts.slice(0, TALLIED).map(({ name, items }) => {
    const meter = el('i', { class: 'meter' });
    meter.style.width = `${(WIDEST * items) / counts[0].items}%`;
    return el('li', {}, bdi(name), el('span', { class: 'time' }, meter, count(items)));
  });
  return rows.length > 0 && el('div', {}, el('h3', {}, title), el('ul', {}, rows));
}

/** @param {string} title @param {any} content */
const section = (title, content) => el('section', { class: 'start', 'aria-label': title }, el('h2', {}, title), content);

const empty = () =>
  el('div', { class: 'start' }, el('h2', {}, 'Nothing is stored here yet'), el('p', {}, 'Store something, then search for it in your own words:'), el('pre', {}, 'fourfold add "The spare key is with Mrs Okafor" --tag home\nfourfold index ~/notes\nfourfold import export.jsonl'));
