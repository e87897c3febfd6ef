// @ts-check
/** The dialog for the token, which stays in this tab. */
import { setToken } from './api.js';
import { byId } from './dom.js';

export function askForToken() {
  if (!byId('token').open) byId('token').showModal();
}

/** @param {() => void} changed */
export function wireToken(changed) {
  const [dialog, input] = [byId('token'), byId('token-input')];
  byId('token-button').addEventListener('click', askForToken);
  dialog.addEventListener('close', () => {
    const { returnValue } = dialog;
    if (returnValue === 'use') setToken(input.value.trim());
    if (returnValue === 'forget') setToken('');
    input.value = '';
    dialog.returnValue = '';
    if (returnValue) changed();
  });
}
