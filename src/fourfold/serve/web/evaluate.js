// @ts-check
/** Evaluation by the judgements: metrics of both settings, and the queries in which they differ. */
import { call, download, inside, Problem } from './api.js';
import { bdi, button, counted, el, replace, table } from './dom.js';
import { options } from './state.js';

/** @typedef {{state: () => import('./state.js').State, judgements: import('./judge.js').Judgements, ask: (query: string) => void}} Context */

const MEASURE = 'ndcg@10';
const UNTESTED = new Set(['top_k']);

export class Evaluation {
  /** @param {HTMLElement} place @param {Context} context */
  constructor(place, context) {
    this.place = place;
    this.context = context;
    /** @type {{a: any, b: any} | null} */
    this.found = null;
    this.wrong = '';
    this.running = false;
  }

  /** Forgets figures of another namespace. */
  clear() {
    [this.found, this.wrong] = [null, ''];
  }

  render() {
    const { counts } = this.context.judgements;
    const { ns } = this.context.state();
    const save = () => this._try(() => download(inside(ns, '/judgements/collection'), 'collection.zip'));
    const none = counts.judgements === 0;
    replace(
      this.place,
      el('p', {}, `${counted(counts.judgements, 'judgement')} of ${counted(counts.queries, 'query', 'queries')}. `, 'Judge results with “Relevant” and “Not relevant”; unjudged results count as not relevant.'),
      el(
        'menu',
        {},
        button(this.running ? 'Running …' : 'Measure A and B', () => this._run(), { class: 'primary', disabled: none || this.running }),
        button('Download the collection', save, { disabled: none }),
      ),
      el('p', { class: 'note' }, 'The download is in BEIR layout: ', el('code', {}, 'unzip collection.zip -d judged && fourfold eval judged')),
      this.wrong && el('p', { class: 'warning', role: 'alert' }, this.wrong),
      this.found && [this._metrics(this.found), this._queries(this.found)],
    );
  }

  /** @param {() => Promise<void>} act */
  async _try(act) {
    this.wrong = '';
    try {
      await act();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.wrong = `${error.message}. ${error.remedy}`;
    }
    this.render();
  }

  async _run() {
    this.running = true;
    this.render();
    await this._try(async () => {
      const { ns, a, b } = this.context.state();
      const measured = (/** @type {import('./state.js').Setting} */ setting) => {
        const body = Object.fromEntries(Object.entries(options(setting)).filter(([name]) => !UNTESTED.has(name)));
        return call('POST', inside(ns, '/evaluation'), { body });
      };
      try {
        this.found = { a: await measured(a), b: await measured(b) };
      } finally {
        this.running = false;
      }
    });
  }

  /** @param {{a: any, b: any}} found */
  _metrics({ a, b }) {
    const rows = Object.keys(a.metrics).map((name) => [name, a.metrics[name].toFixed(4), b.metrics[name].toFixed(4), difference(b.metrics[name] - a.metrics[name])]);
    rows.push(['p50', `${a.latency_ms.p50.toFixed(1)} ms`, `${b.latency_ms.p50.toFixed(1)} ms`, '']);
    return table(`Means over ${counted(a.queries, 'query', 'queries')}`, ['measure', 'A', 'B', 'B − A'], rows, { class: 'metrics' });
  }

  /** @param {{a: any, b: any}} found */
  _queries({ a, b }) {
    const other = new Map(b.questions.map((/** @type {any} */ each) => [each.query, each]));
    const measure = a.questions.length && MEASURE in a.questions[0].scores ? MEASURE : Object.keys(a.questions[0]?.scores ?? {})[0];
    const pairs = a.questions.map((/** @type {any} */ each) => ({ query: each.query, left: each.scores[measure], right: other.get(each.query)?.scores[measure] ?? 0 }));
    pairs.sort((/** @type {any} */ x, /** @type {any} */ y) => Math.abs(y.right - y.left) - Math.abs(x.right - x.left));
    const rows = pairs.map((/** @type {any} */ { query, left, right }) => [
      button(bdi(query), () => this.context.ask(query), { class: 'link' }),
      left.toFixed(3),
      right.toFixed(3),
      difference(right - left),
    ]);
    return table(`${measure} by query, the largest differences first`, ['query', 'A', 'B', 'B − A'], rows, { class: 'by-query' });
  }
}

/** @param {number} value */
function difference(value) {
  const kind = value > 0 ? 'better' : value < 0 ? 'worse' : 'equal';
  return el('span', { class: kind }, `${value > 0 ? '+' : value < 0 ? '−' : '±'}${Math.abs(value).toFixed(4)}`);
}
