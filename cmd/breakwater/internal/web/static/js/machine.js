// The state machine as it is published (REQ-O7): closed, open, half-open, with the present one lit, failures against the threshold, the sleep
// that is left, and how the probe fares.
import { attr, s, text } from './dom.js';
import { left, seconds } from './format.js';

const boxes = { closed: [2, 'Closed'], open: [127, 'Open'], half_open: [252, 'Half-open'] };

export function machine() {
  const states = {};
  for (const [state, [x, word]] of Object.entries(boxes)) {
    states[state] = s('g', { class: 'state' }, s('rect', { x, y: 26, width: 86, height: 28, rx: 14 }), s('text', { x: x + 43, y: 44.5 }, word));
  }
  const edges = {
    trip: edge('M88 40H121', 'M127 40l-7 -3.500v7z', 107.5, 17),
    sleep: edge('M213 40H246', 'M252 40l-7 -3.500v7z', 232.5, 17),
    probe: edge('M295 54V60a9 9 0 0 1 -9 9H54a9 9 0 0 1 -9 -9V60', 'M45 54l-3.500 7h7z', 170, 83),
  };
  const svg = s('svg', { class: 'machine', viewBox: '0 0 340 90', role: 'img' }, Object.values(edges).map((e) => e.g), Object.values(states));
  svg.update = (b) => draw(svg, states, edges, b);
  return svg;
}

function edge(line, tip, x, y) {
  const label = s('text', { x, y });
  return { g: s('g', {}, s('path', { d: line }), s('path', { class: 'tip', d: tip }), label), label };
}

function draw(svg, states, edges, b) {
  const aside = !(b.state in boxes);
  for (const [state, g] of Object.entries(states)) attr(g, 'class', state === b.state ? 'state lit' : 'state');
  const labels = { trip: tripLabel(b), sleep: sleepLabel(b), probe: probeLabel(b) };
  const due = { trip: b.state === 'closed' && (b.consecutive_failures > 0 || b.breaches > 0), sleep: b.state === 'open', probe: b.state === 'half_open' };
  for (const [name, e] of Object.entries(edges)) {
    text(e.label, labels[name]);
    attr(e.g, 'class', due[name] ? 'due' : '');
  }
  attr(svg, 'class', aside ? 'machine aside' : 'machine');
  attr(svg, 'aria-label', `State machine: ${aside ? 'held by an operator' : boxes[b.state][1]}. ${Object.values(labels).join('. ')}.`);
}

// tripLabel is the count while it counts, and afterwards the rule that opened it, which need not be that of failures.
function tripLabel(b) {
  if (b.state !== 'closed' && b.last_trip) return `by ${b.last_trip.reason.rule.replaceAll('_', ' ').slice(0, 20)}`;
  if (b.breach_limit && (b.breaches > 0 || !b.consecutive_failures)) return `${Math.min(b.breaches, b.breach_limit)} of ${b.breach_limit} ${b.scope === 'replica' ? 'late samples' : 'breaches'}`;
  if (!b.consecutive_limit) return 'rules';
  return `${Math.min(b.consecutive_failures, b.consecutive_limit)} of ${b.consecutive_limit} failures`;
}

function sleepLabel(b) {
  if (b.state === 'open') return `${left(b.retry_after_ms)} of sleep left`;
  return b.open_period_ms ? `sleep ${seconds(b.open_period_ms)}` : 'sleep';
}

function probeLabel(b) {
  if (b.state !== 'half_open') return b.probes_of > 1 ? 'probes succeed' : 'a probe succeeds';
  if (b.probes_of > 1) return `${b.probe_successes} of ${b.probes_of} probes succeeded`;
  const good = b.probe_successes ? `, ${b.probe_successes} succeeded` : '';
  return b.probes_in_flight ? `${b.probes_in_flight} probe in flight${good}` : `waiting for a probe${good}`;
}
