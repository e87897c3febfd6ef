// @ts-check
/** Result cards: snippet, a bar of contributions, the exact lines behind it. */
import { bdi, button, el, keepingFocus, replace, short, table } from './dom.js';
import { marked } from './markdown.js';
import { factorsOf, product, titleOf } from './ranking.js';
import { RETRIEVERS } from './state.js';

/** @typedef {import('./ranking.js').Ranked} Ranked */
/** @typedef {import('./ranking.js').Question} Question */
/** @typedef {import('./ranking.js').Line} Line */

/** Every source of a contribution, in the order of bars and legends. */
const SOURCES = ['semantic', 'keyword', 'graph', 'walk', 'tags', 'shared', 'relation', 'rerank', 'file name'];
/** A longer list is drawn without motion. */
const SLIDING_CARDS = 30;
/** From here on a result probably answers the question, and below it probably does not. */
const [SURE, DOUBTFUL] = [0.5, 0.2];
/** Items whose lines are open. @type {Set<number>} */
const open = new Set();

/** The name of a source as part of a class. @param {string} source */
export const slug = (source) => source.replace(' ', '-');

/** A row of coloured marks with names, for the sources that take part. @param {Ranked} ranked */
export function legend(ranked) {
  const taking = new Set(ranked.answer.results.flatMap((/** @type {any} */ { contributions }) => contributions.map((/** @type {Line} */ line) => line.source)));
  const names = SOURCES.filter((source) => taking.has(source));
  return el('ul', { class: 'legend', 'aria-label': 'Colours of the retrievers' }, names.map((name) => el('li', {}, el('i', { class: `dot ${slug(name)}` }), name)));
}

/** The stacked bar of a score; its whole length is the best score. @param {Line[]} lines @param {number} factor @param {number} best */
export function bar(lines, factor, best) {
  const parts = lines.filter((line) => line.value > 0).map((line) => {
    const part = el('i', { class: slug(line.source), title: `${line.source} ${short(line.value * factor)}` });
    part.style.width = `${best > 0 ? (100 * line.value * factor) / best : 0}%`;
    return part;
  });
  return el('span', { class: 'bar', 'aria-hidden': 'true' }, parts);
}

/** A number with four digits, and all of them on hover. @param {number} number @param {'span' | 'strong'} [tag] */
const hovered = (number, tag = 'span') => el(tag, { title: String(number) }, short(number));

/** The lines that sum to a score. @param {Line[]} lines @param {[string, number][]} factors @param {number} score */
export function exact(lines, factors, score) {
  const raws = /** @type {Record<string, string>} */ (RETRIEVERS);
  const rows = lines.map((line) => [
    el('span', { class: 'source' }, el('i', { class: `dot ${slug(line.source)}` }), line.source),
    line.rank === null ? 'not listed' : String(line.rank),
    line.raw === null ? '–' : `${raws[line.source] ?? 'score'} ${short(line.raw)}`,
    short(line.weight),
    short(line.scaled),
    hovered(line.value),
  ]);
  const sum = lines.reduce((total, line) => total + line.value, 0);
  if (factors.length) rows.push(['sum', '', '', '', '', hovered(sum)]);
  for (const [name, factor] of factors) rows.push([name, '', '', '', '×', hovered(factor)]);
  rows.push([el('strong', {}, 'score'), '', '', '', '', hovered(score, 'strong')]);
  return table('The lines of the score', ['source', 'rank', 'own score', 'weight', 'scaled', 'value'], rows, { class: 'lines' });
}

/**
 * @typedef {{open: (id: number, tab?: string) => void, judge: (id: number, relevance: number) => void,
 *   judged: (id: number) => number | undefined, leaving: (id: number) => boolean}} Actions
 */

/** The card of one item. It stays when the ranking changes: only what differs is drawn again. */
class Card {
  /** @param {any} result @param {Actions} actions */
  constructor(result, actions) {
    const { id, tags } = result;
    const title = titleOf(result);
    this.id = id;
    this.actions = actions;
    this.rank = el('span', { class: 'rank' });
    this.sure = el('span', { class: 'sure' });
    this.bars = el('button', { type: 'button', class: 'bars', 'aria-controls': `lines-${id}`, on: { click: () => this._toggle() } });
    this.lines = el('div', { class: 'exact', id: `lines-${id}` });
    this.snippet = el('p', { class: 'snippet', dir: 'auto' });
    this.meta = el('span', { class: 'meta' });
    this.verdicts = [this._verdict(1, 'Relevant', title), this._verdict(0, 'Not relevant', title)];
    const graph = button('Graph', () => actions.open(id, 'graph'));
    const why = button('Why', () => actions.open(id, 'why'));
    this.element = el(
      'li',
      { class: 'card', data: { id } },
      el('header', {}, this.rank, this.sure, el('h3', {}, button(bdi(title), () => actions.open(id), { class: 'link' }))),
      this.bars,
      this.lines,
      this.snippet,
      el('footer', {}, this.meta, tags.slice(0, 6).map((/** @type {string} */ tag) => el('span', { class: 'tag' }, bdi(tag))), el('span', { class: 'acts' }, this.verdicts, graph, why)),
    );
  }

  /** @param {number} relevance @param {string} label @param {string} title */
  _verdict(relevance, label, title) {
    return button(label, () => this.actions.judge(this.id, relevance), { class: 'verdict', 'aria-label': `${label}: ${title.slice(0, 80)}` });
  }

  /** @param {number} place @param {any} result @param {number} best The best score. */
  show(place, result, best) {
    const { id, actions } = this;
    const { contributions: lines, score } = result;
    this.result = result;
    const factor = product(factorsOf(result));
    const told = lines.map((/** @type {Line} */ line) => `${line.source} ${short(line.value * factor)}`).join(', ');
    this.rank.textContent = String(place);
    this.sure.textContent = `${Math.round(100 * result.confidence)} %`;
    this.sure.title = `confidence ${result.confidence.toFixed(2)}: how likely this answers the question`;
    this.sure.classList.toggle('good', result.confidence >= SURE);
    this.sure.classList.toggle('poor', result.confidence < DOUBTFUL);
    this.bars.setAttribute('aria-label', `Score ${short(score)}: ${told}. Exact lines`);
    replace(this.bars, bar(lines, factor, best), el('span', { class: 'score' }, short(score)));
    this._showLines();
    this.element.classList.toggle('leaving', actions.leaving(id));
    const relevance = actions.judged(id);
    this.verdicts.forEach((each, index) => each.setAttribute('aria-pressed', String(relevance === 1 - index)));
    replace(this.snippet, marked(result.snippet));
    const facts = [
      result.kind && bdi(result.kind),
      result.language,
      result.location && bdi(result.location),
      el('time', { datetime: result.updated_at }, result.updated_at.slice(0, 10)),
      result.subject && bdi([result.subject, result.attribute].filter(Boolean).join(' / ')),
      result.superseded_at && `superseded ${result.superseded_at.slice(0, 10)}`,
      result.also_in?.length ? `also in ${result.also_in.length} files` : '',
    ].filter(Boolean);
    replace(this.meta, facts.map((each) => el('span', {}, each)));
  }

  _showLines() {
    const isOpen = open.has(this.id);
    this.bars.setAttribute('aria-expanded', String(isOpen));
    this.lines.hidden = !isOpen;
    replace(this.lines, isOpen && exact(this.result.contributions, factorsOf(this.result), this.result.score));
  }

  _toggle() {
    if (!open.delete(this.id)) open.add(this.id);
    this._showLines();
  }
}

/** Cards by item, of the question that is shown. @type {{question: Question | null, cards: Map<number, Card>}} */
const made = { question: null, cards: new Map() };

/** Shows a ranking; cards that moved slide to their place. @param {HTMLElement} list @param {Question} question @param {Ranked} ranked @param {Actions} actions */
export function show(list, question, ranked, actions) {
  if (made.question !== question) [made.question, made.cards] = [question, new Map()];
  const { results } = ranked.answer;
  const cards = results.map((/** @type {any} */ result, /** @type {number} */ place) => {
    const card = made.cards.get(result.id) ?? new Card(result, actions);
    made.cards.set(result.id, card);
    card.show(place + 1, result, results[0].score);
    return card;
  });
  const before = results.length <= SLIDING_CARDS ? positions(list) : new Map();
  const elements = cards.length ? cards.map((/** @type {Card} */ card) => card.element) : [nothing(question)];
  const same = elements.length === list.children.length && elements.every((/** @type {Element} */ each, /** @type {number} */ place) => each === list.children[place]);
  if (!same) keepingFocus(list, () => list.replaceChildren(...elements));
  if (!same) slide(list, before);
}

/** What to do if nothing was found. @param {Question} question */
const nothing = ({ filters }) => el('li', { class: 'card' }, el('strong', {}, 'Nothing is found.'), Object.keys(filters).length ? ' Remove a filter, or use other words.' : ' Use other words, or clear the question to see what is stored.');

/** @param {HTMLElement} list @returns {Map<string, number>} */
const positions = (list) => new Map([...list.children].map((each) => [/** @type {HTMLElement} */ (each).dataset.id ?? '', each.getBoundingClientRect().top]));

/** @param {HTMLElement} list @param {Map<string, number>} before */
function slide(list, before) {
  if (!before.size || matchMedia('(prefers-reduced-motion: reduce)').matches) return;
  const after = positions(list);
  for (const each of list.children) {
    const id = /** @type {HTMLElement} */ (each).dataset.id ?? '';
    const moved = (before.get(id) ?? NaN) - (after.get(id) ?? NaN);
    if (Number.isNaN(moved)) each.animate([{ opacity: 0.2 }, { opacity: 1 }], { duration: 150 });
    else if (moved) each.animate([{ transform: `translateY(${moved}px)` }, { transform: 'none' }], { duration: 150, easing: 'ease-out' });
  }
}
