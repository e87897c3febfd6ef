// @ts-check
/** The panel of a setting: preset, fusion, weights, alpha, recency, reranker, sources, number of results. */
import { button, el, replace, short } from './dom.js';
import { slug } from './results.js';
import { FUSIONS, noSetting, PRESETS, RERANKERS, RETRIEVERS } from './state.js';

/** @typedef {import('./state.js').Setting} Setting */

const PRESET_HINTS = /** @type {Record<string, string>} */ ({
  auto: 'all four, weights by the query',
  'insights-basic': 'vectors and words',
  insights: 'vectors, words, graph',
  wiki: 'vectors and words, half each',
  files: 'vectors and words of files',
  memories: 'vectors and tags by alpha, recency',
});

export class Controls {
  /** @param {HTMLElement} place @param {(change: Partial<Setting>, done: boolean) => void} changed `done` is false while dragging */
  constructor(place, changed) {
    this.changed = changed;
    /** @type {Setting} */
    this.setting = noSetting();
    /** Weights of the last ranking, by retriever. @type {Record<string, number>} */
    this.applied = {};
    this.preset = this._choice('preset', 'Preset', PRESETS, (name) => `${name}: ${PRESET_HINTS[name]}`);
    this.fusion = this._choice('fusion', 'Fusion', ['', ...FUSIONS], (name) => name || "the preset's");
    this.weights = Object.keys(RETRIEVERS).map((name, index) => this._weight(name, index));
    this.alpha = this._slider('alpha', 'Alpha', 'tags ↔ vectors; preset memories', (value) => ({ alpha: value, weights: null }));
    this.recency = this._slider('recency', 'Recency', 'how much age lowers a score', (value) => ({ recency: value }));
    this.rerank = this._choice('rerank', 'Rerank', ['', ...RERANKERS], (name) => name || "the server's");
    this.sources = this._sources();
    this.top = this._choice('top_k', 'Results', ['5', '10', '20', '50', '100'], (name) => name);
    this.reset = button('Reset', () => this.changed(noSetting(), true), { title: 'Back to the preset auto' });
    this.free = button("Preset's weights", () => this.changed({ weights: null }, true), {});
    replace(
      place,
      this.preset.row,
      this.fusion.row,
      el('fieldset', {}, el('legend', {}, 'Weights'), this.weights.map((each) => each.row), this.free),
      this.alpha.row,
      this.recency.row,
      this.rerank.row,
      this.sources.row,
      this.top.row,
      this.reset,
    );
  }

  /** @param {'preset' | 'fusion' | 'rerank' | 'top_k'} name @param {string} label @param {string[]} values @param {(value: string) => string} spelled */
  _choice(name, label, values, spelled) {
    const input = el('select', { id: `set-${name}` }, values.map((value) => el('option', { value }, spelled(value))));
    input.addEventListener('change', () => {
      const value = input.value;
      if (name === 'top_k') this.changed({ top_k: Number(value) }, true);
      else if (name === 'preset') this.changed({ preset: value, fusion: null, weights: null, alpha: null, recency: null }, true);
      else this.changed({ [name]: value || null }, true);
    });
    return { input, row: el('div', { class: 'row' }, el('label', { for: input.id }, label), input) };
  }

  /** @param {string} name @param {number} index */
  _weight(name, index) {
    const input = el('input', { id: `weight-${name}`, type: 'range', min: 0, max: 100, step: 1, class: slug(name) });
    const output = el('output', { for: input.id });
    const take = (/** @type {boolean} */ done) => {
      const weights = [...(this.setting.weights ?? this._positions())];
      weights[index] = Number(input.value);
      if (!weights.some((each) => each > 0)) weights[index] = 1; // a ranking needs one retriever
      this.changed({ weights, alpha: null }, done);
    };
    input.addEventListener('input', () => take(false));
    input.addEventListener('change', () => take(true));
    return { input, output, row: el('div', { class: 'row' }, el('label', { for: input.id }, el('i', { class: `dot ${slug(name)}` }), name), input, output) };
  }

  /** Positions of the sliders for the weights of the last ranking. */
  _positions() {
    const applied = Object.keys(RETRIEVERS).map((name) => this.applied[name] ?? 0);
    const total = applied.reduce((sum, each) => sum + each, 0);
    return total > 0 ? applied.map((each) => Math.round((100 * each) / total)) : applied.map(() => 25);
  }

  /** @param {'alpha' | 'recency'} name @param {string} label @param {string} hint @param {(value: number | null) => Partial<Setting>} made */
  _slider(name, label, hint, made) {
    const input = el('input', { id: `set-${name}`, type: 'range', min: 0, max: 1, step: 0.01, 'aria-describedby': `hint-${name}` });
    const output = el('output', { for: input.id });
    const clear = button('×', () => this.changed(made(null), true), { class: 'clear', 'aria-label': `${label}: as the preset`, title: 'As the preset' });
    input.addEventListener('input', () => this.changed(made(Number(input.value)), false));
    input.addEventListener('change', () => this.changed(made(Number(input.value)), true));
    const row = el('div', { class: 'row' }, el('label', { for: input.id }, label), input, output, clear, el('small', { id: `hint-${name}` }, hint));
    return { input, output, clear, row };
  }

  _sources() {
    const input = el('input', { id: 'set-sources', type: 'text', placeholder: 'agent=0.8,import=0.5', spellcheck: 'false', 'aria-describedby': 'hint-sources' });
    input.addEventListener('change', () => this.changed({ sources: input.value.trim() || null }, true));
    return { input, row: el('div', { class: 'row' }, el('label', { for: input.id }, 'Sources'), input, el('small', { id: 'hint-sources' }, 'how much scores count, by source')) };
  }

  /** Shows a setting. @param {Setting} setting @param {import('./ranking.js').Ranked | null} ranked */
  show(setting, ranked) {
    this.setting = setting;
    this.applied = ranked?.answer.applied_weights ?? {};
    this.preset.input.value = setting.preset;
    this.fusion.input.value = setting.fusion ?? '';
    this.rerank.input.value = setting.rerank ?? '';
    this.sources.input.value = setting.sources ?? '';
    this._showTop(setting.top_k);
    const positions = setting.weights ?? this._positions();
    const total = positions.reduce((sum, each) => sum + each, 0);
    this.weights.forEach(({ input, output }, place) => {
      if (Number(input.value) !== positions[place]) input.value = String(positions[place]);
      output.textContent = total > 0 && (setting.weights || ranked) ? (positions[place] / total).toFixed(2) : '–';
    });
    this.free.hidden = setting.weights === null;
    this.alpha.input.disabled = setting.preset !== 'memories';
    this._showNumber(this.alpha, setting.alpha, 0.5);
    this._showNumber(this.recency, setting.recency, ranked?.answer.plan.recency?.strength ?? 0);
  }

  /** @param {any} slider @param {number | null} value @param {number} otherwise */
  _showNumber(slider, value, otherwise) {
    const shown = String(value ?? otherwise);
    if (slider.input.value !== shown) slider.input.value = shown;
    slider.output.textContent = value === null ? 'preset' : short(value);
    slider.clear.hidden = value === null;
  }

  /** @param {number} value */
  _showTop(value) {
    const { input } = this.top;
    const known = [...input.options].some((option) => option.value === String(value));
    if (!known) input.append(el('option', { value: String(value) }, String(value)));
    input.value = String(value);
  }
}
