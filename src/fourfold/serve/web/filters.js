// @ts-check
/** Filters, and facets to set them by. */
import { bdi, button, count, el, keepingFocus, replace } from './dom.js';
import { noFilters } from './state.js';

/** @typedef {import('./state.js').Filters} Filters */

const FACETS = 12;
const FIELDS = /** @type {[keyof Filters, string, string, string][]} */ ([
  ['path', 'Path', 'docs/**', 'text'],
  ['created_from', 'Created from', '', 'date'],
  ['created_to', 'Created to', '', 'date'],
  ['metadata', 'Metadata', '{"floor": 4}', 'text'],
  ['where', 'Condition', 'updated_at >= 2026-01-31 and not kind = draft', 'text'],
]);

export class FilterPanel {
  /** @param {HTMLElement} place @param {(filters: Filters) => void} changed */
  constructor(place, changed) {
    this.changed = changed;
    this.filters = noFilters();
    this.facets = /** @type {any} */ (null);
    this.all = /** @type {Set<string>} */ (new Set());
    this.shown = /** @type {any[]} */ ([]);
    this.chosen = el('p', { class: 'chosen', role: 'group', 'aria-label': 'Filters that are set' });
    this.lists = el('div', {});
    this.inputs = FIELDS.map(([name, label, hint, type]) => {
      const input = el('input', { id: `filter-${name}`, type, placeholder: hint, autocomplete: 'off' });
      input.addEventListener('change', () => this._set({ [name]: input.value.trim() }));
      return { name, input, row: el('div', { class: 'row' }, el('label', { for: input.id }, label), input) };
    });
    replace(place, this.chosen, this.lists, el('details', {}, el('summary', {}, 'More filters'), this.inputs.map((each) => each.row)));
  }

  /** @param {Partial<Filters>} change */
  _set(change) {
    this.changed({ ...this.filters, ...change });
  }

  /** @param {Filters} filters @param {any} facets Counts of the namespace; null: not known yet. @param {any[]} candidates */
  show(filters, facets, candidates) {
    const shown = [filters, facets, candidates, this.all.size];
    if (shown.every((each, place) => each === this.shown[place])) return;
    this.shown = shown;
    keepingFocus(this.lists, () => this._show(filters, facets, candidates));
  }

  /** @param {Filters} filters @param {any} facets @param {any[]} candidates */
  _show(filters, facets, candidates) {
    this.filters = filters;
    this.facets = facets;
    for (const { name, input } of this.inputs) if (input !== document.activeElement) input.value = String(filters[name]);
    this._showChosen();
    const found = tally(candidates);
    const toggled = (/** @type {string[]} */ list, /** @type {string} */ name) => (list.includes(name) ? list.filter((each) => each !== name) : [...list, name]);
    replace(
      this.lists,
      facets && [
        this._facet('Tags', facets.tags, found.tags, (name) => filters.tags.includes(name), (name) => this._set({ tags: toggled(filters.tags, name) })),
        filters.tags.length > 1 &&
          el('label', { class: 'check' }, el('input', { type: 'checkbox', checked: filters.any_tag, on: { change: (/** @type {any} */ event) => this._set({ any_tag: event.target.checked }) } }), 'one of the tags is enough'),
        this._facet('Kinds', facets.kinds, found.kinds, (name) => filters.kind === name, (name) => this._set({ kind: filters.kind === name ? '' : name })),
        this._facet('Languages', facets.languages, found.languages, (name) => filters.language === name, (name) => this._set({ language: filters.language === name ? '' : name })),
      ],
    );
  }

  /** @param {string} title @param {{name: string, items: number}[]} counts @param {Map<string, number>} found @param {(name: string) => boolean} isSet @param {(name: string) => void} toggle */
  _facet(title, counts, found, isSet, toggle) {
    if (!counts.length) return null;
    const whole = this.all.has(title);
    const sorted = found.size ? [...counts].sort((a, b) => (found.get(b.name) ?? 0) - (found.get(a.name) ?? 0)) : counts;
    const listed = whole ? sorted : sorted.filter((each, place) => place < FACETS || isSet(each.name));
    const chips = listed.map(({ name, items }) => {
      const among = found.get(name);
      const label = among === undefined ? count(items) : `${count(among)}/${count(items)}`;
      return button([bdi(name), el('small', {}, label)], () => toggle(name), { class: 'chip', 'aria-pressed': String(isSet(name)), data: { key: `${title} ${name}` } });
    });
    const more = sorted.length > listed.length && button(`${sorted.length - listed.length} more`, () => this._more(title), { class: 'chip more' });
    return el('div', { class: 'facet', role: 'group', 'aria-label': title }, el('h3', {}, title), chips, more);
  }

  /** @param {string} title */
  _more(title) {
    this.all.add(title);
    this.show(this.filters, this.facets, this.shown[2]);
  }

  _showChosen() {
    const { tags, kind, language, path, created_from, created_to, metadata, where } = this.filters;
    const texts = /** @type {[string, string, Partial<Filters>][]} */ ([
      ...tags.map((tag) => ['tag', tag, { tags: tags.filter((each) => each !== tag) }]),
      ...Object.entries({ kind, language, path, created_from, created_to, metadata, where }).map(([name, value]) => [name.replace('_', ' '), value, { [name]: '' }]),
    ]).filter(([, value]) => value);
    const chips = texts.map(([name, value, without]) => button([`${name}: `, bdi(value), ' ×'], () => this._set(without), { class: 'chip set', 'aria-label': `Remove the filter ${name} ${value}` }));
    replace(this.chosen, chips, texts.length > 1 && button('Clear all', () => this.changed(noFilters()), { class: 'chip' }));
  }
}

/** Counts among candidates. @param {any[]} candidates */
function tally(candidates) {
  const found = { tags: new Map(), kinds: new Map(), languages: new Map() };
  const add = (/** @type {Map<string, number>} */ counts, /** @type {string} */ name) => counts.set(name, (counts.get(name) ?? 0) + 1);
  for (const item of candidates) {
    for (const tag of item.tags) add(found.tags, tag);
    if (item.kind) add(found.kinds, item.kind);
    add(found.languages, item.language);
  }
  return found;
}
