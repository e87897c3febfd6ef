// @ts-check
/**
 * A question to one namespace, ranked by the server for a setting.
 *
 * @typedef {import('./state.js').Setting} Setting
 * @typedef {{ns: string, text: string, filters: Record<string, any>}} Question
 * @typedef {{source: string, rank: number | null, raw: number | null, scaled: number, weight: number, value: number}} Line
 * @typedef {{answer: any, setting: Setting, results: Map<number, any>}} Ranked `results`: those of the answer by id, best first
 */
import { call, inside } from './api.js';
import { options } from './state.js';

/** @param {Question} question @param {Setting} setting @param {boolean} candidates Whether to list what was fused, too. @param {AbortSignal} signal @returns {Promise<Ranked>} */
export async function rank({ ns, text, filters }, setting, candidates, signal) {
  /** @type {Record<string, any>} */
  const body = { query: text, ...options(setting), top_k: setting.top_k, candidates, content: false };
  if (Object.keys(filters).length) body.filters = filters;
  const answer = await call('POST', inside(ns, '/search'), { body, signal });
  return { answer, setting, results: new Map(answer.results.map((/** @type {any} */ result) => [result.id, result])) };
}

/** What a result is called. @param {any} result @returns {string} */
export const titleOf = ({ id, title, snippet }) => title || snippet.replaceAll('**', '').slice(0, 80) || `item ${id}`;

/** The factors of a result's score with their names, in the order in which they are multiplied; those of 1 are left out. @param {any} result @returns {[string, number][]} */
export function factorsOf({ recency, window, source_weight }) {
  /** @type {[string, number][]} */
  const named = [['recency', recency], ['time window', window], ['source', source_weight]];
  return named.filter(([, factor]) => factor !== 1);
}

/** @param {[string, number][]} factors */
export const product = (factors) => factors.reduce((total, [, factor]) => total * factor, 1);
