// @ts-check
/** The start: what the namespace holds, before anything is asked. */
import { call, inside } from './api.js';
import { bdi, button, counted, el, replace } from './dom.js';
import { bare, GraphView } from './graph.js';

/** @typedef {import('./graph.js').Edge} Edge */
/** @typedef {import('./ranking.js').Question} Question */

const NEWEST = 6;
const QUESTIONS = 3;
const SNIPPET_CHARACTERS = 160;

export class Start {
  /**
   * @param {HTMLElement} place @param {import('./item.js').Context} context
   * @param {{ask: (query: string) => void, open: (id: number) => void}} actions
   */
  constructor(place, context, actions) {
    this.place = place;
    this.actions = actions;
    /** @type {GraphView} */
    this.graph = new GraphView({ ...context, go: ({ node }) => this.graph.draw(node) });
  }

  /** Shows the counts, the newest items that pass the filters, and what is connected most. @param {Question} question @param {any} facets @param {AbortSignal} signal */
  async show({ ns, filters }, facets, signal) {
    const { items, total } = await call('GET', inside(ns, '/items'), { query: { ...filters, limit: NEWEST }, signal });
    const { nodes } = await call('GET', inside(ns, '/graph/nodes'), { query: { limit: 1 }, signal });
    const around = nodes.length ? await this.graph.draw(nodes[0].name) : null;
    if (signal.aborted) return;
    if (!facets?.items) return replace(this.place, empty());
    const questions = [...asked(around?.edges ?? []), ...items.map((/** @type {any} */ item) => item.title).filter(Boolean).slice(0, QUESTIONS)];
    replace(
      this.place,
      counts(facets),
      questions.length > 0 && section('Ask', el('p', {}, questions.map((text) => button(bdi(text), () => this.actions.ask(text), { class: 'chip' })))),
      section(Object.keys(filters).length ? `Newest of ${counted(total, 'item')} that pass the filters` : 'Newest', el('ol', { class: 'cards' }, items.map((/** @type {any} */ item) => this._card(item)))),
      around && section('Connected most', this.graph.place),
    );
  }

  /** @param {any} item */
  _card({ id, title, content, created_at, tags }) {
    return el(
      'li',
      { class: 'card' },
      el('h3', {}, button(bdi(title || `item ${id}`), () => this.actions.open(id), { class: 'link' })),
      el('p', { class: 'snippet', dir: 'auto' }, content.length > SNIPPET_CHARACTERS ? `${content.slice(0, SNIPPET_CHARACTERS)} …` : content),
      el('footer', {}, el('span', { class: 'meta' }, el('time', { datetime: created_at }, created_at.slice(0, 10))), tags.slice(0, 6).map((/** @type {string} */ tag) => el('span', { class: 'tag' }, bdi(tag)))),
    );
  }
}

/** Questions that relations answer in any language, each about another relation: "Heron: depends on?" @param {Edge[]} edges */
function asked(edges) {
  const first = new Map([...edges].reverse().map((edge) => [edge.relation, edge.from]));
  return [...first].slice(0, QUESTIONS).map(([relation, from]) => `${bare(from)}: ${relation.replaceAll(/[-_]/g, ' ')}?`);
}

/** @param {any} facets */
function counts({ items, kinds, tags, languages }) {
  const numbers = [[items, 'item'], [kinds.length, 'kind'], [tags.length, 'tag'], [languages.length, 'language']];
  return el('ul', { class: 'counts' }, numbers.filter(([number]) => number).map(([number, name]) => el('li', {}, el('strong', {}, counted(number, name)))));
}

/** @param {string} title @param {any} content */
const section = (title, content) => el('section', { class: 'start', 'aria-label': title }, el('h2', {}, title), content);

const empty = () =>
  el('div', { class: 'start' }, el('h2', {}, 'Nothing is stored here yet'), el('p', {}, 'Store something, then search for it in your own words:'), el('pre', {}, 'fourfold add "The spare key is with Mrs Okafor" --tag home\nfourfold index ~/notes\nfourfold import export.jsonl'));
