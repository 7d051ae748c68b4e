// Shapes: each state has its own, so that colour is never all that tells.
import { h, s } from './dom.js';

const levers = {
  closed: () => [s('path', { d: 'M7 17H21' })],
  open: () => [s('path', { d: 'M7 17 17.500 6.500' })],
  half_open: () => [s('path', { d: 'M7 17 20 11.500', 'stroke-dasharray': '3 3.6' })],
  forced_open: () => [s('path', { d: 'M7 17 17.500 6.500M6 24H22' })],
  forced_closed: () => [s('path', { d: 'M7 17H21M6 24H22' })],
  disabled: () => [s('path', { d: 'M7 17H21', 'stroke-dasharray': '1 4' }), s('path', { d: 'M8 25 21 8' })],
};

// stateIcon is a switch: its lever lies, is raised, or is on its way; a bar below says that a hand holds it.
export function stateIcon(state) {
  const lever = (levers[state] ?? levers.disabled)();
  return h('span', { class: 'state-icon', 'aria-hidden': 'true' },
    s('svg', { viewBox: '0 0 28 28' },
      s('path', { d: 'M1.500 17H4M24 17H26.500' }),
      s('circle', { class: 'dot', cx: 6.5, cy: 17, r: 2.7 }),
      s('circle', { class: 'dot', cx: 21.5, cy: 17, r: 2.7 }),
      lever));
}

const paths = {
  sun: 'M12 7a5 5 0 1 0 0 10 5 5 0 0 0 0-10M12 2v2M12 20v2M4.900 4.900l1.400 1.400M17.700 17.700l1.400 1.400M2 12h2M20 12h2M4.900 19.100l1.400-1.400M17.700 6.300l1.400-1.400',
  moon: 'M20 14.500A8.500 8.500 0 0 1 9.500 4 8.500 8.500 0 1 0 20 14.500',
  auto: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18M12 3v18M12 7h5M12 12h7M12 17h5',
  help: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18M9.500 9.300a2.600 2.600 0 1 1 3.600 2.400c-.8.4-1.100.8-1.100 1.800M12 16.800v.2',
  down: 'M12 4v11M7.500 11 12 15.500 16.500 11M5 20h14',
  open: 'M4 18V6a1 1 0 0 1 1-1h4l2 2.500h8a1 1 0 0 1 1 1V18a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1',
  pause: 'M9 6v12M15 6v12',
  play: 'M8 5.500v13l10-6.500z',
  copy: 'M9 9h10v11H9zM15 9V4H5v11h4',
  alert: 'M12 4 2.800 19.500h18.400zM12 10v4.500M12 17v.1',
  close: 'M6 6l12 12M18 6 6 18',
  table: 'M4 5h16v14H4zM4 10h16M10 10v9',
  chart: 'M4 5v14h16M7 15l4-5 3 3 5-6',
  link: 'M10 14a4 4 0 0 0 5.700 0l3-3a4 4 0 0 0-5.700-5.700l-1 1M14 10a4 4 0 0 0-5.700 0l-3 3a4 4 0 0 0 5.700 5.700l1-1',
  heal: 'M12 20s-7.500-4.600-7.500-10A4.200 4.200 0 0 1 12 7.300 4.200 4.200 0 0 1 19.500 10c0 5.400-7.500 10-7.500 10M12 10.500v5M9.500 13h5',
};

export const icon = (name) => s('svg', { class: 'icon', viewBox: '0 0 24 24', 'aria-hidden': 'true' }, s('path', { d: paths[name] }));
