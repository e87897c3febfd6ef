// @ts-check
/** Result cards: snippet, a bar of contributions, the exact lines behind it. */
import { bdi, button, el, keepingFocus, marked, replace, short, table } from './dom.js';
import { RETRIEVERS, SOURCES, factorsOf, product } from './fusion.js';

/** @typedef {import('./ranking.js').Ranked} Ranked */
/** @typedef {import('./ranking.js').Question} Question */

/** A longer list is drawn without motion. */
const SLIDING_CARDS = 30;
/** Items whose lines are open. @type {Set<number>} */
const open = new Set();

/** The name of a source as part of a class. @param {string} source */
export const slug = (source) => source.replace(' ', '-');

/** A row of coloured marks with names, for the sources that take part. @param {Ranked} ranked */
export function legend(ranked) {
  const taking = new Set(ranked.ids.flatMap((id) => ranked.fused.lines(id).map((line) => line.source)));
  const names = SOURCES.filter((source) => taking.has(source));
  return el('ul', { class: 'legend', 'aria-label': 'Colours of the retrievers' }, names.map((name) => el('li', {}, el('i', { class: `dot ${slug(name)}` }), name)));
}

/** The stacked bar of a score; its whole length is the best score. @param {import('./fusion.js').Line[]} lines @param {number} factor @param {number} best */
export function bar(lines, factor, best) {
  const parts = lines.filter((line) => line.value > 0).map((line) => {
    const part = el('i', { class: slug(line.source), title: `${line.source} ${short(line.value * factor)}` });
    part.style.width = `${best > 0 ? (100 * line.value * factor) / best : 0}%`;
    return part;
  });
  return el('span', { class: 'bar', 'aria-hidden': 'true' }, parts);
}

/** The lines that sum to a score, in full precision. @param {import('./fusion.js').Line[]} lines @param {[string, number][]} factors @param {number} score */
export function exact(lines, factors, score) {
  const raws = Object.fromEntries(RETRIEVERS.map((spec) => [spec.name, spec.score]));
  const rows = lines.map((line) => [
    el('span', { class: 'source' }, el('i', { class: `dot ${slug(line.source)}` }), line.source),
    line.rank === null ? 'not listed' : String(line.rank),
    line.raw === null ? '–' : `${raws[line.source] ?? 'score'} ${short(line.raw)}`,
    short(line.weight),
    short(line.scaled),
    String(line.value),
  ]);
  const sum = lines.reduce((total, line) => total + line.value, 0);
  if (factors.length) rows.push(['sum', '', '', '', '', String(sum)]);
  for (const [name, factor] of factors) rows.push([name, '', '', '', '×', String(factor)]);
  rows.push([el('strong', {}, 'score'), '', '', '', '', el('strong', {}, String(score))]);
  return table('The lines of the score', ['source', 'rank', 'own score', 'weight', 'scaled', 'value'], rows, { class: 'lines' });
}

/**
 * @typedef {{open: (id: number, tab?: string) => void, judge: (id: number, relevance: number) => void,
 *   judged: (id: number) => number | undefined, leaving: (id: number) => boolean}} Actions
 */

/** The card of one item. It stays when the ranking changes: only what differs is drawn again. */
class Card {
  /** @param {number} id @param {Question} question @param {Actions} actions */
  constructor(id, question, actions) {
    this.id = id;
    this.question = question;
    this.actions = actions;
    const item = question.items.get(id);
    const title = item?.title || `item ${id}`;
    this.rank = el('span', { class: 'rank' });
    this.bars = el('button', { type: 'button', class: 'bars', 'aria-controls': `lines-${id}`, on: { click: () => this._toggle() } });
    this.lines = el('div', { class: 'exact', id: `lines-${id}` });
    this.snippet = el('p', { class: 'snippet', dir: 'auto' });
    this.meta = el('span', { class: 'meta' });
    this.verdicts = [this._verdict(1, 'Relevant', title), this._verdict(0, 'Not relevant', title)];
    /** The result that the snippet and the facts are from. @type {any} */
    this.told = null;
    const graph = button('Graph', () => actions.open(id, 'graph'));
    const why = button('Why', () => actions.open(id, 'why'));
    this.element = el(
      'li',
      { class: 'card', data: { id } },
      el('header', {}, this.rank, el('h3', {}, button(bdi(title), () => actions.open(id), { class: 'link' }))),
      this.bars,
      this.lines,
      this.snippet,
      el('footer', {}, this.meta, item?.tags.slice(0, 6).map((tag) => el('span', { class: 'tag' }, bdi(tag))), el('span', { class: 'acts' }, this.verdicts, graph, why)),
    );
  }

  /** @param {number} relevance @param {string} label @param {string} title */
  _verdict(relevance, label, title) {
    return button(label, () => this.actions.judge(this.id, relevance), { class: 'verdict', 'aria-label': `${label}: ${title.slice(0, 80)}` });
  }

  /** @param {number} place @param {Ranked} ranked */
  show(place, ranked) {
    const { id, question, actions } = this;
    const item = question.items.get(id);
    this.scored = { lines: ranked.fused.lines(id), factors: factorsOf(item, ranked.plan), score: ranked.scores.get(id) ?? 0 };
    const { lines, factors, score } = this.scored;
    const factor = product(factors);
    const told = lines.map((line) => `${line.source} ${short(line.value * factor)}`).join(', ');
    this.rank.textContent = String(place);
    this.bars.setAttribute('aria-label', `Score ${short(score)}: ${told}. Exact lines`);
    replace(this.bars, bar(lines, factor, ranked.best), el('span', { class: 'score' }, short(score)));
    this._showLines();
    this.element.classList.toggle('leaving', actions.leaving(id));
    const relevance = actions.judged(id);
    this.verdicts.forEach((each, index) => each.setAttribute('aria-pressed', String(relevance === 1 - index)));
    this._showFacts(item, question.results.get(id));
  }

  /** @param {any} item @param {any} result */
  _showFacts(item, result) {
    if (this.told !== null && this.told === result) return;
    this.told = result ?? null;
    replace(this.snippet, result && marked(result.snippet));
    const facts = [
      item?.kind && bdi(item.kind),
      item?.language,
      item?.location && bdi(item.location),
      item && el('time', { datetime: item.updated_at }, item.updated_at.slice(0, 10)),
      result && `confidence ${result.confidence?.toFixed(2)}`,
      result?.also_in?.length ? `also in ${result.also_in.length} files` : '',
    ].filter(Boolean);
    replace(this.meta, facts.map((each) => el('span', {}, each)));
  }

  _showLines() {
    const isOpen = open.has(this.id);
    const { lines, factors, score } = /** @type {any} */ (this.scored);
    this.bars.setAttribute('aria-expanded', String(isOpen));
    this.lines.hidden = !isOpen;
    replace(this.lines, isOpen && exact(lines, factors, score));
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
  const cards = ranked.ids.map((id) => made.cards.get(id) ?? new Card(id, question, actions));
  for (const card of cards) made.cards.set(card.id, card);
  const before = ranked.ids.length <= SLIDING_CARDS ? positions(list) : new Map();
  cards.forEach((card, place) => card.show(place + 1, ranked));
  const elements = cards.map((card) => card.element);
  const same = elements.length === list.children.length && elements.every((each, place) => each === list.children[place]);
  if (!same) keepingFocus(list, () => list.replaceChildren(...elements));
  if (!same) slide(list, before);
}

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
