// @ts-check
/** Timing and candidate counts by stage, what is degraded, and whether the page's ranking is the server's. */
import { bdi, count, counted, el, short, table } from './dom.js';
import { slug } from './results.js';

/** @typedef {import('./ranking.js').Ranked} Ranked */

/** Time and length of each list. @param {Ranked} ranked */
export function stages({ answer, fused }) {
  const timings = answer.timings_ms;
  const longest = Math.max(...Object.entries(timings).map(([name, spent]) => (name === 'total' ? 0 : Number(spent))), 0.001);
  const lists = answer.candidates.lists;
  const rows = Object.entries(timings).map(([name, spent]) => {
    const meter = el('i', { class: `meter ${slug(name)}` });
    meter.style.width = `${name === 'total' ? 0 : (100 * spent) / longest}%`;
    const listed = lists[name] ? count(lists[name].hits.length) : name === 'fusion' ? count(fused.order.length) : name === 'total' ? counted(answer.results.length, 'result') : '';
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
export function told({ answer, plan, ids, fused }) {
  const words = answer.matched_keywords.length ? ` (${answer.matched_keywords.join(', ')})` : '';
  const asked = answer.query_type === 'relational' ? `relational question${words}` : '';
  return [`${counted(ids.length, 'result')} of ${counted(fused.order.length, 'candidate')}`, `${plan.preset}, ${plan.fusion}`, asked].filter(Boolean).join(' · ');
}

/** Whether the order is the server's. @param {Ranked} ranked */
export function check({ status, difference, milliseconds, plan }) {
  const took = `${short(milliseconds)} ms`;
  const walk = plan.fusion === 'auto' ? '; lists from the best hits are those of the previous weights' : '';
  const texts = {
    preview: `fused in this page in ${took}, not yet checked${walk}`,
    same: `fused in this page in ${took}: the server ranks the same`,
    differs: `The server ranks otherwise ${difference}. Its results are shown with the page's scores: report this.`,
  };
  return el('p', { class: `check ${status}`, data: { status } }, texts[status]);
}
