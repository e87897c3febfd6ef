// @ts-check
/** Elements from values. Stored content only ever becomes a text node: nothing here parses markup. */

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * @param {string} tag @param {Record<string, any>} [attributes] `on`: listeners by event; `value`, `checked`, ... are properties
 * @param {...(Child | Child[])} children @returns {any}
 */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** @param {string} tag @param {Record<string, any>} [attributes] @param {...(Child | Child[])} children @returns {any} */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

const PROPERTIES = new Set(['value', 'checked', 'disabled', 'hidden', 'open', 'selected']);

/** @param {Element} element @param {Record<string, any>} attributes @param {(Child | Child[])[]} children */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'on') for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === 'data') Object.assign(/** @type {HTMLElement} */ (element).dataset, value);
    else if (PROPERTIES.has(name)) /** @type {any} */ (element)[name] = value;
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...nodes(children));
  return element;
}

/** @param {(Child | Child[])[]} children @returns {(Node | string)[]} */
const nodes = (children) =>
  children
    .flat()
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (typeof child === 'number' ? String(child) : /** @type {Node | string} */ (child)));

/** @param {Element} element @param {...(Child | Child[])} children */
export const replace = (element, ...children) => element.replaceChildren(...nodes(children));

/** @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);

/** Text of unknown direction, isolated from what surrounds it. @param {string} text @param {Record<string, any>} [attributes] */
export const bdi = (text, attributes = {}) => el('bdi', { dir: 'auto', ...attributes }, text);

const SHOWN_CHARACTERS = 20_000;

/** A text as it is stored; a long one is shown up to a limit, and the rest on request. @param {string} text */
export function longText(text) {
  const pre = el('pre', { class: 'text', dir: 'auto', tabindex: '0' }, text.slice(0, SHOWN_CHARACTERS));
  if (text.length <= SHOWN_CHARACTERS) return pre;
  const more = el('button', { type: 'button' }, `Show all ${count(text.length)} characters`);
  more.addEventListener('click', () => {
    pre.textContent = text;
    more.remove();
  });
  return el('div', {}, pre, more);
}

/** @param {number} number */
export const count = (number) => number.toLocaleString('en');

/** @param {number} number @param {string} one @param {string} [many] */
export const counted = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** Four significant digits. @param {number | null | undefined} number */
export function short(number) {
  if (number === null || number === undefined) return '–';
  return String(Number(number.toPrecision(4)));
}

/** @param {Child | Child[]} label @param {() => void} act @param {Record<string, any>} [attributes] */
export const button = (label, act, attributes = {}) => el('button', { type: 'button', on: { click: act }, ...attributes }, label);

/** Renders a part again without losing the focus: it moves to the element of the same item and name. @param {HTMLElement} part @param {() => void} render */
export function keepingFocus(part, render) {
  const named = (/** @type {any} */ each) => [each.closest('[data-id]')?.dataset.id, each.dataset.key ?? (each.id || each.textContent)].join();
  const held = part.contains(document.activeElement) ? named(document.activeElement) : null;
  render();
  if (held === null || part.contains(document.activeElement)) return;
  const same = [...part.querySelectorAll('button, input')].find((each) => named(each) === held);
  /** @type {HTMLElement | undefined} */ (same)?.focus({ preventScroll: true });
}

/** A table whose cells are texts or nodes. @param {string} caption @param {string[]} head @param {(Child | Child[])[][]} rows */
export function table(caption, head, rows, attributes = {}) {
  return el(
    'div',
    { class: 'scroll' },
    el(
      'table',
      attributes,
      el('caption', {}, caption),
      el('thead', {}, el('tr', {}, head.map((name) => el('th', { scope: 'col' }, name)))),
      el('tbody', {}, rows.map((row) => el('tr', {}, row.map((cell) => el('td', {}, cell))))),
    ),
  );
}

/** Marks the chosen one of a group of buttons. @param {string} group @param {string} name @param {string} chosen */
export function press(group, name, chosen) {
  for (const each of byId(group).querySelectorAll(`[data-${name}]`)) each.setAttribute('aria-pressed', String(each.dataset[name] === chosen));
}

/** Says something to screen readers, and shows it for a while. @param {string} text */
export function announce(text) {
  byId('live').textContent = text;
}

/** @param {(...given: any[]) => void} act @param {number} milliseconds */
export function debounced(act, milliseconds) {
  let timer = 0;
  return (/** @type {any[]} */ ...given) => {
    clearTimeout(timer);
    timer = window.setTimeout(act, milliseconds, ...given);
  };
}
