// @ts-check
/** What sessions may have left to remember: each is kept, edited or dropped. */
import { call, inside } from './api.js';
import { announce, bdi, button, counted, el } from './dom.js';

const SHOWN = 5;

/**
 * The section of proposals that wait; false if none does.
 * @param {string} ns @param {() => void} changed @param {(error: unknown) => void} failed @param {AbortSignal} signal
 */
export async function proposals(ns, changed, failed, signal) {
  const { proposals: waiting, total } = await call('GET', inside(ns, '/proposals'), { query: { limit: SHOWN }, signal });
  /** @param {string} route @param {any} body @param {string} told */
  const decide = async (route, body, told) => {
    try {
      await call('POST', inside(ns, `/proposals:${route}`), { body });
      announce(told);
      changed();
    } catch (error) {
      failed(error);
    }
  };
  if (!total) return false;
  const title = `${counted(total, 'proposal')} of what to remember`;
  return el('section', { class: 'start', 'aria-label': 'Proposals' }, el('h2', {}, title), el('ol', { class: 'cards' }, waiting.map((/** @type {any} */ each) => card(each, decide))));
}

/** @param {any} proposal @param {(route: string, body: any, told: string) => Promise<void>} decide */
function card({ id, text, kind, session, metadata, created_at }, decide) {
  const shown = el('p', { class: 'snippet', dir: 'auto' }, bdi(text));
  const edited = el('textarea', { rows: '3', value: text, dir: 'auto', 'aria-label': 'What to store' });
  const keep = () => decide('accept', { ids: [id], ...(edited.isConnected && edited.value !== text ? { text: edited.value } : {}) }, 'Kept');
  const edit = button('Edit', () => {
    shown.replaceWith(edited);
    edit.remove();
    edited.focus();
  });
  const confidence = metadata.confidence === undefined ? '' : `${Math.round(100 * metadata.confidence)} %`;
  const facts = [kind && bdi(kind), confidence, el('time', { datetime: created_at }, created_at.slice(0, 10)), bdi(`session ${session}`)];
  return el(
    'li',
    { class: 'card', data: { proposal: id } },
    shown,
    el('footer', {}, el('span', { class: 'meta' }, facts.filter(Boolean).map((fact) => el('span', {}, fact))), el('span', { class: 'acts' }, button('Keep', keep), edit, button('Drop', () => decide('drop', { ids: [id] }, 'Dropped')))),
  );
}
