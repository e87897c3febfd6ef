// @ts-check
/** Keys of the whole page: / to the search field, arrows through results and tabs, the link that skips to the results. */
import { byId } from './dom.js';

const TYPED = 'input:not([type=range], [type=checkbox]), textarea, select';
/** How far each key moves, in a column and in a row. */
const [DOWN, ALONG] = /** @type {Record<string, number>[]} */ ([{ ArrowDown: 1, ArrowUp: -1 }, { ArrowRight: 1, ArrowLeft: -1 }]);

/** The element of a list that comes before or after one. @param {Iterable<Element>} list @param {Element | null} from @param {number} step @returns {HTMLElement | undefined} */
function beside(list, from, step) {
  const all = [...list];
  return /** @type {HTMLElement | undefined} */ (all[(from ? all.indexOf(from) : -1) + step]);
}

export function wireKeys() {
  addEventListener('keydown', (event) => {
    const at = /** @type {HTMLElement} */ (event.target);
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const query = byId('query');
    const card = at.closest('#results > .card');
    /** @type {HTMLElement | undefined} */
    let next;
    if (event.key === '/' && !at.closest(TYPED) && !document.querySelector('dialog[open]')) next = query;
    else if (event.key in DOWN && (at === query || card)) next = beside(document.querySelectorAll('#results > .card'), card, DOWN[event.key])?.querySelector('h3 button') ?? (card && event.key === 'ArrowUp' ? query : undefined);
    else if (event.key in ALONG && at.role === 'tab') next = beside(at.parentElement?.children ?? [], at, ALONG[event.key]);
    if (!next) return;
    event.preventDefault();
    next.focus();
    if (at.role === 'tab') next.click();
  });
  document.querySelector('.skip')?.addEventListener('click', (event) => {
    event.preventDefault();
    byId('results').focus();
  });
}
