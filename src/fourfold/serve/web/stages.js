// @ts-check
/** Timing and candidate counts by stage, what is degraded, and how the query was read. */
import { bdi, count, counted, el, short, table } from './dom.js';
import { slug } from './results.js';

/** @typedef {import('./ranking.js').Ranked} Ranked */

/** Time and length of each list. @param {Ranked} ranked */
export function stages({ answer }) {
  const timings = answer.timings_ms;
  const longest = Math.max(...Object.entries(timings).map(([name, spent]) => (name === 'total' ? 0 : Number(spent))), 0.001);
  const { lists, order } = answer.candidates ?? { lists: {}, order: [] };
  const rows = Object.entries(timings).map(([name, spent]) => {
    const meter = el('i', { class: `meter ${slug(name)}` });
    meter.style.width = `${name === 'total' ? 0 : (100 * spent) / longest}%`;
    const length = name === 'fusion' ? order.length : (lists[name]?.hits.length ?? answer[`${name}_results_count`]);
    const listed = name === 'total' ? counted(answer.results.length, 'result') : length ? count(length) : '';
    return [name, el('span', { class: 'time' }, meter, `${short(spent)} ms`), listed];
  });
  return table('Time and candidates by stage, of the server', ['stage', 'time', 'candidates'], rows);
}

/** Retrievers that failed or did not see every item, and notes. @param {Ranked} ranked */
export function warnings({ answer }) {
  const degraded = answer.degraded.map((/** @type {any} */ each) => el('li', {}, el('strong', {}, each.retriever), `: ${each.reason}`));
  const notes = answer.notes.map((/** @type {string} */ note) => el('li', {}, bdi(note)));
  if (!degraded.length && !notes.length) return null;
  return el('div', { class: degraded.length ? 'warning' : 'note', role: 'status' }, degraded.length ? el('strong', {}, 'Degraded') : null, el('ul', {}, degraded, notes));
}

/** How the query was read. @param {Ranked} ranked */
export function told({ answer }) {
  const words = answer.matched_keywords.length ? ` (${answer.matched_keywords.join(', ')})` : '';
  const asked = answer.query_type === 'relational' ? `relational question${words}` : '';
  const among = answer.candidates ? ` of ${counted(answer.candidates.order.length, 'candidate')}` : '';
  return [counted(answer.results.length, 'result') + among, `${answer.preset}, ${answer.fusion_strategy}`, asked].filter(Boolean).join(' · ');
}
