// @ts-check
/** Plots of an evaluation, each with its figures as text: what every query gains, and how often confidence is right. */
import { counted, el, svg, table } from './dom.js';

/** @typedef {{confidence: number, right: boolean}} First The first result of a query. */

const [WIDEST, GAINS_HIGH, SQUARE] = [560, 190, 260];
const [MARGIN, LEFT, RIM] = [30, 44, 22];
const SHARES = [0, 0.2, 0.4, 0.6, 0.8];
const BIN = 0.2;

const text = (/** @type {string} */ shown, /** @type {number} */ x, /** @type {number} */ y, anchor = 'end') => svg('text', { x, y, 'text-anchor': anchor }, shown);
const line = (/** @type {number} */ x1, /** @type {number} */ y1, /** @type {number} */ x2, /** @type {number} */ y2, kind = '') => svg('line', { x1, y1, x2, y2, class: kind });
const percent = (/** @type {number} */ share) => `${Math.round(100 * share)} %`;

/** @param {string} title @param {any} drawing @param {any} [below] */
const figure = (title, drawing, below) => el('figure', {}, el('figcaption', {}, title), drawing, below);

/** A bar for each query, from the largest gain to the largest loss. @param {string} measure @param {{query: string, gain: number}[]} queries */
export function gains(measure, queries) {
  const sorted = [...queries].sort((a, b) => b.gain - a.gain);
  const [better, worse] = [sorted.filter(({ gain }) => gain > 0).length, sorted.filter(({ gain }) => gain < 0).length];
  const told = `B is better for ${better}, worse for ${worse}, equal for ${sorted.length - better - worse} of ${counted(sorted.length, 'query', 'queries')}`;
  const width = Math.min(WIDEST, innerWidth - MARGIN);
  const most = Math.ceil(10 * Math.max(...sorted.map(({ gain }) => Math.abs(gain)), 0.1)) / 10;
  const [slot, middle] = [(width - LEFT) / sorted.length, GAINS_HIGH / 2];
  const y = (/** @type {number} */ gain) => middle - (gain / most) * (middle - 10);
  const bars = sorted.map(({ query, gain }, place) =>
    svg('rect', { class: gain > 0 ? 'better' : 'worse', x: LEFT + place * slot, y: Math.min(y(gain), middle), width: Math.max(slot - Math.min(slot / 4, 2), 0.5), height: Math.abs(y(gain) - middle) }, svg('title', {}, `${query}: ${signed(gain, 3)}`)),
  );
  const scale = [most, 0, -most].map((gain) => [line(LEFT, y(gain), width, y(gain)), text(gain ? signed(gain, 1) : '0', LEFT - 6, y(gain) + 4)]);
  return figure(`${measure}, B − A: ${told}`, svg('svg', { class: 'plot gains', viewBox: `0 0 ${width} ${GAINS_HIGH}`, role: 'img', 'aria-label': `${told}; the largest gain is ${signed(sorted[0].gain, 3)}, the largest loss ${signed(sorted[sorted.length - 1].gain, 3)}` }, scale.flat(), bars));
}

/** @param {number} value @param {number} digits */
export const signed = (value, digits) => `${value > 0 ? '+' : value < 0 ? '−' : '±'}${Math.abs(value).toFixed(digits)}`;

/** Of the first results with a confidence, how many are right: on the diagonal, confidence is what it says. @param {Record<string, First[]>} sides */
export function calibration(sides) {
  const at = (/** @type {number} */ share) => RIM + share * (SQUARE - 2 * RIM);
  const bins = Object.entries(sides).flatMap(([side, firsts]) => SHARES.map((from) => binned(side, from, firsts)).filter((bin) => bin.count));
  const dots = bins.map(({ side, count, confidence, right, told }) => {
    const [x, y, size] = [at(confidence) + LEFT - RIM, SQUARE - at(right), 3 + Math.sqrt(count)];
    const shape = side === 'A' ? svg('circle', { cx: x, cy: y, r: size }) : svg('rect', { x: x - size, y: y - size, width: 2 * size, height: 2 * size });
    return svg('g', { class: `side-${side.toLowerCase()}` }, shape, svg('title', {}, told));
  });
  const ticks = [0, 0.5, 1].map((share) => [
    line(LEFT, SQUARE - at(share), LEFT + SQUARE - 2 * RIM, SQUARE - at(share)),
    text(percent(share), LEFT - 4, SQUARE - at(share) + 4),
    text(percent(share), LEFT + at(share) - RIM, SQUARE - 5, 'middle'),
  ]);
  const ideal = line(LEFT, SQUARE - at(0), LEFT + SQUARE - 2 * RIM, SQUARE - at(1), 'ideal');
  const rows = bins.map(({ side, range, count, right }) => [side, range, String(count), percent(right)]);
  return figure(
    'First results by confidence (across) that are relevant (up): A ●, B ■',
    svg('svg', { class: 'plot calibration', viewBox: `0 0 ${LEFT + SQUARE - RIM} ${SQUARE}`, role: 'img', 'aria-label': bins.map(({ told }) => told).join('; ') }, ticks.flat(), ideal, dots),
    el('details', {}, el('summary', {}, 'As a table'), table('First results by confidence', ['', 'confidence', 'queries', 'relevant'], rows)),
  );
}

/** The first results of one side with a confidence from a limit on. @param {string} side @param {number} from @param {First[]} firsts */
function binned(side, from, firsts) {
  const inside = firsts.filter(({ confidence }) => confidence >= from && (confidence < from + BIN || from + BIN >= 1));
  const mean = (/** @type {(first: First) => number} */ of) => inside.reduce((sum, first) => sum + of(first), 0) / inside.length;
  const [count, confidence, right] = [inside.length, mean((first) => first.confidence), mean((first) => Number(first.right))];
  const range = `${Math.round(100 * from)}–${percent(from + BIN)}`;
  return { side, range, count, confidence, right, told: `${side}, confidence ${range}: ${percent(right)} of ${count} relevant` };
}
