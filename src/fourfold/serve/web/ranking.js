// @ts-check
/**
 * One question to one namespace. What all retrievers list is fetched once; every setting is fused from that in the page, then
 * checked against the server's own ranking.
 *
 * Two parts of `auto` come from the server: weights that it chooses by the query, and the lists that graph and tags find from
 * the best hits (they depend on the weights, so a preview uses those of the previous weights).
 *
 * @typedef {import('./fusion.js').Plan} Plan
 * @typedef {import('./fusion.js').Fused} Fused
 * @typedef {import('./state.js').Setting} Setting
 * @typedef {{plan: any, candidates: import('./fusion.js').Candidates, results: any[], [name: string]: any}} Answer
 * @typedef {{ids: number[], fused: Fused, scores: Map<number, number>, best: number, plan: Plan, answer: Answer, setting: Setting,
 *   status: 'preview' | 'same' | 'differs', difference: string, milliseconds: number}} Ranked
 */
import { call, inside } from './api.js';
import { fuse, RETRIEVERS, shown } from './fusion.js';
import { options, sourceWeights, weightsOf } from './state.js';

const FETCHED_RESULTS = 50;
const ALL = { preset: 'auto' };

export class Question {
  /** @param {string} namespace @param {string} text @param {Record<string, any>} filters */
  constructor(namespace, text, filters) {
    this.namespace = namespace;
    this.text = text;
    this.filters = filters;
    /** @type {Answer | null} */
    this.base = null;
    /** @type {Map<number, import('./fusion.js').Candidate>} */
    this.items = new Map();
    /** Results as the server sent them last. @type {Map<number, any>} */
    this.results = new Map();
  }

  /** @param {Record<string, any>} asked @param {number} most @param {AbortSignal} [signal] @returns {Promise<Answer>} */
  async _search(asked, most, signal) {
    /** @type {Record<string, any>} */
    const body = { query: this.text, ...asked, top_k: most, candidates: true, content: false };
    if (Object.keys(this.filters).length) body.filters = this.filters;
    const answer = await call('POST', inside(this.namespace, '/search'), { body, signal });
    for (const item of answer.candidates.items) this.items.set(item.id, item);
    for (const result of answer.results) this.results.set(result.id, result);
    return answer;
  }

  /** Fetches what every retriever lists. @param {number} most @param {AbortSignal} [signal] */
  async load(most, signal) {
    this.base = await this._search(ALL, Math.max(most, FETCHED_RESULTS), signal);
  }

  /** The server's ranking for a setting, and the page's own beside it. @param {Setting} setting @param {AbortSignal} [signal] @returns {Promise<Ranked>} */
  async checked(setting, signal) {
    const asked = options(setting);
    const first = this.base === null;
    if (first) await this.load(setting.top_k, signal);
    const base = /** @type {Answer} */ (this.base);
    const plain = JSON.stringify(asked) === JSON.stringify(ALL);
    const answer = plain && first ? base : await this._search(asked, setting.top_k, signal);
    let ranked = this._ranked(setting, planOf(setting, answer), answer);
    let difference = unlike(ranked, answer, setting);
    if (difference && !first) {
      await this.load(setting.top_k, signal); // something was stored meanwhile
      ranked = this._ranked(setting, planOf(setting, answer), answer);
      difference = unlike(ranked, answer, setting);
    }
    if (difference) ranked.ids = answer.results.map((result) => result.id);
    return { ...ranked, status: difference ? 'differs' : 'same', difference };
  }

  /** What the page can say before the server answers; null if that needs the server. @param {Setting} setting @param {Ranked | null} last @returns {Ranked | null} */
  preview(setting, last) {
    if (this.base === null || last === null) return null;
    const before = last.setting;
    const given = givenWeights(setting);
    const alike = before.preset === setting.preset && before.fusion === setting.fusion && before.rerank === setting.rerank;
    if (!alike || (given === null && givenWeights(before) !== null)) return null;
    if ((before.alpha === null) !== (setting.alpha === null) && setting.fusion === null) return null; // alpha decides the fusion
    if (before.recency !== null && setting.recency === null) return null;
    const plan = planOf(setting, last.answer);
    return { ...this._ranked(setting, plan, last.answer), status: 'preview' };
  }

  /** @param {Setting} setting @param {Plan} plan @param {Answer} answer @returns {Ranked} */
  _ranked(setting, plan, answer) {
    const begun = performance.now();
    const items = new Map(this.items);
    for (const item of answer.candidates.items) items.set(item.id, item);
    const base = /** @type {Answer} */ (this.base).candidates;
    const files = Object.keys(base.files).length ? base.files : answer.candidates.files;
    const fused = fuse(listsFor(plan, base, answer), plan, items, files);
    const ids = shown(fused.order, items, plan.preset, setting.top_k);
    const milliseconds = performance.now() - begun;
    const best = fused.order[0]?.[1] ?? 0;
    return { ids, fused, scores: new Map(fused.order), best, plan, answer, setting, status: 'preview', difference: '', milliseconds };
  }
}

/** Weights by the sliders or by alpha; null: the preset's, or chosen by the query. @param {Setting} setting */
export function givenWeights(setting) {
  if (setting.weights !== null) return weightsOf(setting.weights);
  if (setting.preset !== 'memories' || setting.alpha === null) return null;
  return /** @type {Record<string, number>} */ ({ semantic: setting.alpha, tags: 1 - setting.alpha });
}

/** @param {Setting} setting @param {Answer} answer @returns {Plan} */
export function planOf(setting, answer) {
  const { plan, candidates } = answer;
  const given = givenWeights(setting);
  const applied = Object.fromEntries(Object.entries(candidates.lists).map(([name, list]) => [name, list.weight]));
  return {
    preset: plan.preset,
    fusion: plan.fusion,
    k: plan.k,
    weights: given ?? (plan.fusion === 'auto' ? null : plan.weights),
    applied,
    strength: setting.recency ?? plan.recency?.strength ?? 0,
    sources: sourceWeights(setting),
    rerank: candidates.lists.rerank?.hits ?? null,
  };
}

/** The lists that a plan fuses. @param {Plan} plan @param {import('./fusion.js').Candidates} base @param {Answer} answer */
export function listsFor(plan, base, answer) {
  const weights = plan.weights;
  const given = weights !== null;
  const acts = (/** @type {string} */ name) => (weights ? (weights[name] ?? 0) > 0 : answer.plan.retrievers.includes(name));
  /** @type {Record<string, import('./fusion.js').List>} */
  const lists = {};
  for (const { name } of RETRIEVERS) if (acts(name) && base.lists[name]) lists[name] = base.lists[name];
  if (plan.fusion !== 'auto') return lists;
  const found = answer.candidates.lists;
  for (const { name, expansion, expandsWeighted } of RETRIEVERS) {
    if (expansion && found[expansion] && name in lists && (!given || expandsWeighted)) lists[expansion] = found[expansion];
  }
  const ids = new Set(Object.values(lists).flatMap((list) => list.hits.map((row) => row[0])));
  for (const name of Object.keys(lists)) {
    const own = new Set(lists[name].hits.map((row) => row[0]));
    const known = [base, answer.candidates].flatMap(({ lists: all }) => [...(all[name]?.hits ?? []), ...(all[name]?.unlisted ?? [])]);
    const scores = new Map(known.map((row) => [row[0], row]));
    const scored = [...ids].filter((id) => !own.has(id) && scores.has(id)).map((id) => scores.get(id));
    const able = base.lists[name]?.unlisted.length || found[name]?.unlisted.length;
    lists[name] = { ...lists[name], unlisted: able ? /** @type {any} */ (scored) : [] };
  }
  return lists;
}

/** How the page's ranking differs from the server's; empty if it does not. @param {Ranked} ranked @param {Answer} answer @param {Setting} setting */
function unlike({ fused, ids }, answer, setting) {
  const theirs = answer.candidates.order;
  const place = theirs.findIndex(([id], index) => fused.order[index]?.[0] !== id);
  if (place >= 0 || theirs.length !== fused.order.length) {
    return `from rank ${(place < 0 ? theirs.length : place) + 1} on, of ${theirs.length} ranked by the server and ${fused.order.length} here`;
  }
  const results = answer.results.slice(0, setting.top_k).map((result) => result.id);
  return results.join() === ids.join() ? '' : 'in which of the ranked items are results';
}
