// One word for one thing, and what each means.
import { h } from './dom.js';
import { duration, percent } from './format.js';

export const stateWord = {
  closed: 'Closed', open: 'Open', half_open: 'Half-open',
  forced_open: 'Forced open', forced_closed: 'Forced closed', disabled: 'Disabled',
};

const doesReplica = {
  closed: 'takes reads', open: 'gets no reads',
  forced_open: 'kept out by an operator', forced_closed: 'in use whatever happens', disabled: 'not guarded',
};
const doesConsumer = {
  closed: 'gets triggers', open: 'triggers are stored',
  forced_open: 'kept out by an operator', forced_closed: 'in use whatever happens', disabled: 'not guarded',
};

export const does = (b) => (b.state === 'half_open' ? trial(b) : (b.scope === 'replica' ? doesReplica : doesConsumer)[b.state] ?? '');

// trial says how one fares that is half-open: it is being tried, and not held back.
export const trial = (b) => (b.probes_of > 1 ? `being tried: ${b.probe_successes} of ${b.probes_of} probes succeeded` : 'being tried');

// runbook leads to a section of the runbook.
export const runbook = (section, words) => h('a', { class: 'runbook', href: `https://github.com/breakwater-go/breakwater/blob/main/docs/runbook.md#${section}`, target: '_blank', rel: 'noopener noreferrer' }, words);

export const refuses = (state) => state === 'open' || state === 'half_open' || state === 'forced_open';

export const conditionWord = {
  ok: 'fit', no_sample: 'not sampled yet', unreachable: 'cannot be sampled', late: 'late', stale: 'staleness over the limit',
  unknown_primary: 'the primary is not seen', promoted: 'promoted', timeline: 'on another timeline', other_cluster: 'of another cluster',
  duplicate: 'the same server as another', no_rights: 'the sampler lacks rights', not_primary: 'not a primary', open: 'its breaker is open',
  saturated: 'at its cap of reads', excepted: 'left out by the read', behind: 'behind the position asked for',
};

export const letterReason = {
  open: 'breaker open', forced_open: 'forced open', bulkhead: 'bulkhead full', timeout: 'timed out', failed: 'failed',
  behind: 'behind its key', shutdown: 'shut down', rejected: 'rejected', poison: 'poison', received: 'received',
};

export const faultWord = {
  pause: 'pause replay', lag: 'fixed lag', cut: 'cut link', blackhole: 'black hole', freeze: 'freeze', kill: 'kill', restart: 'restart',
  slow: 'slow', partly_slow: 'partly slow', hang: 'hang', fail: 'fail',
};

export const faultMeans = {
  pause: 'Replay stops; the replica still answers, with ever older data',
  lag: 'Each change is applied this much later',
  cut: 'Its link to the primary is cut; it still answers reads',
  blackhole: 'What is sent to it vanishes; nothing answers',
  freeze: 'The process is stopped; connections stay open',
  kill: 'The process is ended; connections are refused',
  restart: 'The server is stopped and started again',
  slow: 'Answers take this long at the 99th percentile',
  partly_slow: 'Some answers take this long',
  hang: 'It takes calls and never answers',
  fail: 'It answers with errors',
};

export const faultName = (fault) => faultWord[fault] ?? fault.replaceAll('_', ' ');

// measured writes "lag 830 ms against 500 ms" of a reason that has numbers; '' where it has none.
function measured(reason) {
  if (reason?.value === undefined || reason.value === null || reason.threshold === undefined || reason.threshold === null) return '';
  return `${amount(reason.value, reason.unit)} against ${amount(reason.threshold, reason.unit)}`;
}

function amount(value, unit) {
  if (value === 'Infinity') return 'without bound';
  if (unit === 's' || unit === 'seconds') return duration(value * 1000);
  if (unit === 'ms') return duration(value);
  if (unit === 'ratio' || unit === 'share') return percent(value);
  return unit ? `${value} ${unit}` : String(value);
}

const ruleWord = {
  consecutive_failures: 'failures in a row:', failure_rate_count: 'failure rate', failure_rate_time: 'failure rate', slow_call_rate: 'slow calls', percentile: 'latency', cusum: 'latency drifts:',
  ramp_failures: 'failures while traffic came back', fatal: 'it is down', probe_failure: 'a probe failed', probe_slow: 'a probe was slow', probe_lost: 'a probe did not end',
  half_open_expired: 'half-open for too long', open_period_over: 'the open period is over', recovered: 'the probes succeeded', forced: 'by hand', retry_after: 'it asked for a pause', external: 'from outside',
};

// because says a reason in words: its text begins with the rule's name.
export function because(reason) {
  const said = reason?.text || reason?.rule || '';
  const { rule } = reason ?? {};
  const words = said.startsWith(rule) && ruleWord[rule] ? ruleWord[rule] + said.slice(rule.length) : said;
  const numbers = measured(reason);
  return numbers && !/\d/.test(words) ? `${words} (${numbers})` : words;
}

export const glossary = [
  ['Breaker', 'A switch in front of a replica or a consumer. Closed, calls pass; open, they are refused at once, without touching what is behind it.'],
  ['Closed', 'All is well: calls pass and are measured. As in an electric circuit, closed is what lets the current through.'],
  ['Open', 'Calls are refused until the open period is over. Each failed recovery makes the next period longer.'],
  ['Half-open', 'The open period is over: trial calls, the probes, one or several at a time, decide whether to close or to open again.'],
  ['Forced open, forced closed, disabled', 'An operator decided. No rule changes it until it is given back to its rules.'],
  ['Staleness, Lo to Hi', 'How old a replica’s data is, as an interval: it is at least Lo late and at most Hi. Hi grows while nothing new is known.'],
  ['Trip, re-enter', 'Lag above trip opens a replica’s breaker; it must fall to re-enter before the replica is admitted again.'],
  ['Probe', 'A trial call. The sampler makes it for a replica, a stored trigger is it for a consumer: no user waits for it.'],
  ['Ramp', 'After closing, traffic comes back little by little.'],
  ['Flapping', 'Three re-openings within five minutes.'],
  ['Degraded', 'No replica is fresh enough. Each class of reads gets what it can stand: critical the primary within its budget, degradable a flagged older answer, sheddable nothing.'],
  ['Budget', 'How many reads a second may fall back to the primary, so that the outage of the replicas does not become one of the primary.'],
  ['Late replica', 'One whose lag exceeds the trip threshold. It answers, with old data.'],
  ['Dead letter', 'A trigger that its consumer did not take. It is kept and replayed; a parked one waits for a person.'],
  ['Bulkhead', 'The cap on calls in flight to one consumer, so that a slow one cannot take all.'],
];
