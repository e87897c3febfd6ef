// @ts-check
/** Light, dark, or as the system is. */
import { announce, byId } from './dom.js';

const KEY = 'fourfold-theme';
const THEMES = ['', 'light', 'dark'];

export function setTheme() {
  apply(localStorage.getItem(KEY) ?? '');
  byId('theme-button').addEventListener('click', () => {
    const now = document.documentElement.dataset.theme ?? '';
    const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
    apply(next);
    localStorage.setItem(KEY, next);
    announce(`Theme: ${next || 'as the system'}`);
  });
}

/** @param {string} theme */
function apply(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}
