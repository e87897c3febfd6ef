// @ts-check
/** Why an item has its place, or which stage dropped it. */
import { call, inside, Problem } from './api.js';
import { bdi, button, byId, count, el, replace } from './dom.js';
import { factorsOf, product } from './ranking.js';
import { bar, exact } from './results.js';
import { givenFilters, options } from './state.js';

/** @typedef {import('./item.js').Context} Context */
/** @typedef {{name: string, passed: boolean, told: string}} Stage */

const FILTERED = 'the filters leave it out';
const SUGGESTIONS = 8;

/** The stages that an item went through, up to the one that dropped it. @param {any} why @param {Context} context @returns {Stage[]} */
export function stagesOf(why, context) {
  const id = why.item.id;
  const filtered = why.reasons.includes(FILTERED);
  const folded = why.reasons.find((/** @type {string} */ reason) => reason.startsWith('folded: '));
  const lines = why.reasons.filter((/** @type {string} */ reason) => reason !== FILTERED && reason !== folded);
  const ranked = context.ranked();
  /** @type {Stage[]} */
  const stages = [{ name: 'filters', passed: !filtered, told: filtered ? FILTERED : 'it passes' }];
  for (const line of lines) {
    const [name, told] = [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)];
    stages.push({ name, passed: told.startsWith('rank '), told });
  }
  const size = ranked?.answer.candidates?.order.length ?? 0;
  stages.push({ name: 'fusion', passed: why.rank !== null, told: why.rank === null ? 'no list holds it' : `rank ${count(why.rank)}${size ? ` of ${count(size)}` : ''}` });
  if (why.rank === null || ranked === null) return stages;
  if (folded) stages.push({ name: 'same text', passed: false, told: folded.slice('folded: '.length) });
  const [most, results] = [ranked.setting.top_k, ranked.answer.results];
  const place = [...ranked.results.keys()].indexOf(id) + 1;
  const last = results.at(-1);
  const better = results.length < most || why.result.score > last.score || (why.result.score === last.score && id < last.id);
  if (folded) return stages;
  const limited = place === 0 && better;
  stages.push({ name: 'limit per file', passed: !limited, told: limited ? 'better chunks of its file are results already' : 'it passes' });
  if (!limited) stages.push({ name: 'results', passed: place > 0, told: place > 0 ? `result ${place} of ${most}` : `it comes after the last result; ${most} are asked for` });
  return stages;
}

/** The stage that dropped an item: a retriever that misses it does not, as long as another lists it. @param {Stage[]} stages */
export function dropping(stages) {
  const [filters, ...rest] = stages;
  if (!filters.passed) return filters;
  const late = rest.slice(rest.findIndex((stage) => stage.name === 'fusion'));
  return late.find((stage) => !stage.passed) ?? null;
}

/** Asks the server about an item and shows the stages. @param {HTMLElement} place @param {Context} context @param {any} item */
export async function whyView(place, context, item) {
  const { ns, q, filters, a } = context.state();
  if (!q.trim()) return replace(place, el('p', { class: 'note' }, 'Search for something first.'));
  replace(place, el('p', { class: 'note' }, '…'));
  try {
    const body = { query: q, item: item.id, ...options(a) };
    const set = givenFilters(filters);
    const why = await call('POST', inside(ns, '/why'), { body: Object.keys(set).length ? { ...body, filters: set } : body });
    const stages = stagesOf(why, context);
    const dropped = dropping(stages);
    const rows = stages.map((stage) =>
      el('li', { class: stage === dropped ? 'dropped' : stage.passed ? 'passed' : 'missed', data: { stage: stage.name } }, el('strong', {}, stage.name), el('span', {}, stage.told), stage === dropped && el('em', {}, 'dropped here')),
    );
    const { result } = why;
    const factors = result ? factorsOf(result) : [];
    replace(
      place,
      el('p', {}, bdi(item.title || `item ${item.id}`), ' for ', bdi(`“${q}”`)),
      el('ol', { class: 'stages' }, rows),
      result && [el('p', {}, bar(result.contributions, product(factors), result.score)), exact(result.contributions, factors, result.score)],
    );
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    replace(place, el('p', { class: 'warning', role: 'alert' }, `${error.message}. ${error.remedy}`));
  }
}

/** The dialog in which an item is picked that is not among the results. @param {Context} context */
export function openWhyNot(context) {
  const dialog = byId('whynot');
  const input = el('input', { id: 'whynot-input', autocomplete: 'off', autofocus: true, placeholder: '17, key:K, or words of the item' });
  const found = el('ul', { class: 'suggestions', 'aria-label': 'Items to pick from' });
  const body = el('div', { id: 'whynot-body', 'aria-live': 'polite' });
  const pick = (/** @type {any} */ item) => {
    found.replaceChildren();
    return whyView(body, context, item);
  };
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const wanted = input.value.trim();
    const { ns } = context.state();
    try {
      if (/^\d+$/.test(wanted) || wanted.startsWith('key:')) {
        const ids = [wanted.startsWith('key:') ? wanted : Number(wanted)];
        const { items } = await call('POST', inside(ns, '/items:get'), { body: { ids } });
        await pick(items[0]);
      } else if (wanted) {
        const answer = await call('POST', inside(ns, '/search'), { body: { query: wanted, top_k: SUGGESTIONS, content: false } });
        replace(found, answer.results.map((/** @type {any} */ each) => el('li', {}, button([bdi(each.title || each.snippet.slice(0, 80)), el('small', {}, ` ${each.id}`)], () => pick(each), { class: 'link' }))));
        replace(body, !answer.results.length && el('p', { class: 'note' }, 'Nothing is found by these words.'));
      }
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      replace(body, el('p', { class: 'warning', role: 'alert' }, `${error.message}. ${error.remedy}`));
    }
  };
  replace(
    dialog,
    el('header', {}, el('h2', {}, 'Why not this one?'), button('Close', () => dialog.close())),
    el('form', { class: 'search', on: { submit } }, el('label', { for: input.id, class: 'hidden' }, 'Item'), input, el('button', { type: 'submit', class: 'primary' }, 'Find')),
    found,
    body,
  );
  dialog.showModal();
}
