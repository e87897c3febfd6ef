// @ts-check
/** Two settings side by side, with lines between the same items. */
import { bdi, button, el, replace, short, svg } from './dom.js';
import { bar } from './results.js';
import { factorsOf, product } from './fusion.js';
import { check } from './stages.js';

/** @typedef {import('./ranking.js').Ranked} Ranked */
/** @typedef {import('./ranking.js').Question} Question */

const GUTTER = 100;

/** @param {HTMLElement} place @param {Question} question @param {Ranked} left @param {Ranked} right @param {(id: number) => void} open */
export function compare(place, question, left, right, open) {
  const shared = left.ids.filter((id) => right.ids.includes(id));
  const counts = [
    ['shared', shared.length],
    ['only in A', left.ids.length - shared.length],
    ['only in B', right.ids.length - shared.length],
    ['at the same rank', shared.filter((id) => left.ids.indexOf(id) === right.ids.indexOf(id)).length],
  ];
  const columns = [column('A', question, left, right, open), column('B', question, right, left, open)];
  const lines = svg('svg', { class: 'threads', 'aria-hidden': 'true', preserveAspectRatio: 'none' });
  replace(
    place,
    el('ul', { class: 'counts' }, counts.map(([name, number]) => el('li', { data: { count: String(name) } }, el('strong', {}, number), ` ${name}`))),
    el('div', { class: 'pair' }, columns[0], lines, columns[1]),
  );
  draw(lines, columns[0], columns[1], left.ids, right.ids);
}

/** @param {string} name @param {Question} question @param {Ranked} ranked @param {Ranked} other @param {(id: number) => void} open */
function column(name, question, ranked, other, open) {
  const entries = ranked.ids.map((id, place) => {
    const item = question.items.get(id);
    const factor = product(factorsOf(item, ranked.plan));
    const elsewhere = other.ids.indexOf(id);
    const moved = elsewhere < 0 ? `only ${name}` : elsewhere === place ? '=' : elsewhere > place ? `▲ ${elsewhere - place}` : `▼ ${place - elsewhere}`;
    const title = item?.title || `item ${id}`;
    return el(
      'li',
      { class: elsewhere < 0 ? 'alone' : '', data: { id } },
      el('header', {}, el('span', { class: 'rank' }, place + 1), button(bdi(title), () => open(id), { class: 'link' }), el('small', { class: 'moved' }, moved)),
      bar(ranked.fused.lines(id), factor, ranked.best),
      el('span', { class: 'score hidden' }, short(ranked.scores.get(id))),
    );
  });
  return el('div', { class: 'side', data: { side: name } }, el('h3', {}, name, el('small', {}, ` ${ranked.plan.preset}, ${ranked.plan.fusion}`)), check(ranked), el('ol', {}, entries));
}

/** Lines between the entries of the same items. @param {any} lines @param {HTMLElement} left @param {HTMLElement} right @param {number[]} leftIds @param {number[]} rightIds */
function draw(lines, left, right, leftIds, rightIds) {
  const top = lines.getBoundingClientRect().top;
  const height = Math.max(left.offsetHeight, right.offsetHeight, 1);
  const middle = (/** @type {HTMLElement} */ side, /** @type {number} */ id) => {
    const box = side.querySelector(`[data-id="${id}"]`)?.getBoundingClientRect();
    return box ? box.top + box.height / 2 - top : 0;
  };
  lines.setAttribute('viewBox', `0 0 ${GUTTER} ${height}`);
  lines.style.height = `${height}px`;
  const same = leftIds.filter((id) => rightIds.includes(id));
  lines.replaceChildren(
    ...same.map((id) => {
      const [from, to] = [middle(left, id), middle(right, id)];
      const kind = Math.abs(leftIds.indexOf(id) - rightIds.indexOf(id)) === 0 ? 'still' : 'shift';
      return svg('path', { class: kind, d: `M0 ${from} C ${GUTTER / 2} ${from}, ${GUTTER / 2} ${to}, ${GUTTER} ${to}`, data: { id } });
    }),
  );
}
