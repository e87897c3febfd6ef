// @ts-check
/** Evaluation by the judgements: metrics of both settings, and the queries in which they differ. */
import { call, download, inside, Problem } from './api.js';
import { bdi, button, counted, el, replace, table } from './dom.js';
import { calibration, gains, signed } from './plots.js';
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
      this.found && [this._metrics(this.found), ...this._queries(this.found)],
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
    const measure = MEASURE in a.metrics ? MEASURE : Object.keys(a.metrics)[0];
    /** @type {{query: string, left: number, right: number, gain: number}[]} */
    const queries = a.questions.map((/** @type {any} */ { query, scores }) => {
      const [left, right] = [scores[measure], other.get(query)?.scores[measure] ?? 0];
      return { query, left, right, gain: right - left };
    });
    queries.sort((x, y) => Math.abs(y.gain) - Math.abs(x.gain));
    const changed = queries.filter(({ gain }) => gain !== 0);
    const same = queries.filter(({ gain }) => gain === 0);
    const listed = (/** @type {string} */ caption, /** @type {typeof queries} */ rows) =>
      table(caption, ['query', 'A', 'B', 'B − A'], rows.map(({ query, left, right, gain }) => [button(bdi(query), () => this.context.ask(query), { class: 'link' }), left.toFixed(3), right.toFixed(3), difference(gain)]), { class: 'by-query' });
    const firsts = (/** @type {any} */ { questions }) => questions.map((/** @type {any} */ { confidence, scores }) => ({ confidence, right: scores['hit@1'] > 0 }));
    return [
      el('div', { class: 'plots' }, gains(measure, queries), calibration({ A: firsts(a), B: firsts(b) })),
      changed.length > 0 && listed(`${measure} by query, the largest differences first`, changed),
      same.length > 0 && el('details', { open: !changed.length }, el('summary', {}, `${counted(same.length, 'query', 'queries')} without a difference`), listed(measure, same)),
    ];
  }
}

/** @param {number} value */
const difference = (value) => el('span', { class: value > 0 ? 'better' : value < 0 ? 'worse' : 'equal' }, signed(value, 4));
