// The page begins here: each part draws itself when what it shows changes.
import * as cards from './cards.js';
import * as charts from './charts.js';
import * as detail from './detail.js';
import * as events from './events.js';
import * as hash from './hash.js';
import * as header from './header.js';
import * as keys from './keys.js';
import * as lab from './lab.js';
import * as letters from './letters.js';
import * as recording from './recording.js';
import * as stream from './stream.js';
import * as summary from './summary.js';
import * as theme from './theme.js';
import * as topology from './topology.js';

theme.start();
for (const part of [header, summary, topology, cards, detail, charts, letters, lab, events, recording, keys, hash]) part.start();
stream.start(events.say);
