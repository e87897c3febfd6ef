// @ts-check
/** Two settings side by side, with lines between the same items. */
import { bdi, button, el, replace, short, svg } from './dom.js';
import { bar } from './results.js';
import { factorsOf, product, titleOf } from './ranking.js';

/** @typedef {import('./ranking.js').Ranked} Ranked */

const GUTTER = 100;

/** @param {HTMLElement} place @param {Ranked} left @param {Ranked} right @param {(id: number) => void} open */
export function compare(place, left, right, open) {
  const [leftIds, rightIds] = [[...left.results.keys()], [...right.results.keys()]];
  const shared = leftIds.filter((id) => right.results.has(id));
  const counts = [
    ['shared', shared.length],
    ['only in A', leftIds.length - shared.length],
    ['only in B', rightIds.length - shared.length],
    ['at the same rank', shared.filter((id) => leftIds.indexOf(id) === rightIds.indexOf(id)).length],
  ];
  const columns = [column('A', left, rightIds, open), column('B', right, leftIds, open)];
  const lines = svg('svg', { class: 'threads', 'aria-hidden': 'true', preserveAspectRatio: 'none' });
  replace(
    place,
    el('h2', { class: 'hidden' }, 'Comparison'),
    el('ul', { class: 'counts' }, counts.map(([name, number]) => el('li', { data: { count: String(name) } }, el('strong', {}, number), ` ${name}`))),
    el('div', { class: 'pair' }, columns[0], lines, columns[1]),
  );
  draw(lines, columns[0], columns[1], leftIds, rightIds);
}

/** @param {string} name @param {Ranked} ranked @param {number[]} others @param {(id: number) => void} open */
function column(name, { answer }, others, open) {
  const entries = answer.results.map((/** @type {any} */ result, /** @type {number} */ place) => {
    const { id, score, contributions } = result;
    const elsewhere = others.indexOf(id);
    const moved = elsewhere < 0 ? `only ${name}` : elsewhere === place ? '=' : elsewhere > place ? `▲ ${elsewhere - place}` : `▼ ${place - elsewhere}`;
    return el(
      'li',
      { class: elsewhere < 0 ? 'alone' : '', data: { id } },
      el('header', {}, el('span', { class: 'rank' }, place + 1), button(bdi(titleOf(result)), () => open(id), { class: 'link' }), el('small', { class: 'moved' }, moved)),
      bar(contributions, product(factorsOf(result)), answer.results[0].score),
      el('span', { class: 'score hidden' }, short(score)),
    );
  });
  return el('div', { class: 'side', data: { side: name } }, el('h3', {}, name, el('small', {}, ` ${answer.preset}, ${answer.fusion_strategy}`)), el('ol', {}, entries));
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
