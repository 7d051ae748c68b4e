// What the user prefers, kept in the browser.
const kept = 'breakwater-keys';

export const keysOn = () => localStorage.getItem(kept) !== 'off';
export const setKeys = (on) => localStorage.setItem(kept, on ? 'on' : 'off');
