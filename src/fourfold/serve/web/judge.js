// @ts-check
/** Judgements of results: kept by the server as a collection in BEIR layout, which `fourfold eval` reads. */
import { call, inside } from './api.js';
import { announce } from './dom.js';

const spelled = (/** @type {string} */ query) => query.split(/\s+/).filter(Boolean).join(' ');

export class Judgements {
  constructor() {
    this.ns = '';
    /** Relevance by item (id or key:K), by query. @type {Map<string, Map<string, number>>} */
    this.queries = new Map();
  }

  /** @param {string} ns */
  async load(ns) {
    this.ns = ns;
    this._read(await call('GET', inside(ns, '/judgements')));
  }

  /** @param {{judgements: {query: string, item: number | string, relevance: number}[]}} form */
  _read({ judgements }) {
    this.queries = new Map();
    for (const { query, item, relevance } of judgements) {
      if (!this.queries.has(query)) this.queries.set(query, new Map());
      this.queries.get(query)?.set(String(item), relevance);
    }
  }

  /** @param {string} query @param {{id: number, key: string | null} | undefined} item */
  of(query, item) {
    const judged = this.queries.get(spelled(query));
    return item && (judged?.get(`key:${item.key}`) ?? judged?.get(String(item.id)));
  }

  /** Sets a judgement; the same one again removes it. @param {string} query @param {any} item @param {number} relevance */
  async set(query, item, relevance) {
    const wanted = this.of(query, item) === relevance ? null : relevance;
    this._read(await call('POST', inside(this.ns, '/judgements'), { body: { query, item: item.id, relevance: wanted } }));
    announce(wanted === null ? 'Judgement removed' : wanted ? 'Judged relevant' : 'Judged not relevant');
  }

  /** The queries with a relevant item, in the order in which they were judged. */
  get answered() {
    return [...this.queries].filter(([, items]) => [...items.values()].some((relevance) => relevance > 0)).map(([query]) => query);
  }

  /** Numbers of queries and of judgements. */
  get counts() {
    const sizes = [...this.queries.values()].map((items) => items.size);
    return { queries: sizes.length, judgements: sizes.reduce((sum, size) => sum + size, 0) };
  }
}
