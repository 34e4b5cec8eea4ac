// The next occurrence of cron expressions by npm's croner, the path of which is the first argument.
// Reads lines of "expression<TAB>zone<TAB>instants", writes for each a line with the next occurrence
// strictly after each of the instants (Unix seconds; "none"), or "refused<TAB>reason".
'use strict';

const fs = require('fs');
const { Cron } = require(process.argv[2]);

// Croner's own options for what is meant: a time of day is what has no wildcard and no step, and
// `a/n` counts from a.
const OPTIONS = { paused: true, fixedTimeRule: 'no-wildcard', sloppyRanges: true };

function dump(expression, zone, instants) {
  try {
    const cron = new Cron(expression, { ...OPTIONS, timezone: zone });
    return instants.map((after) => {
      const next = cron.nextRun(new Date(after * 1000));
      return next === null ? 'none' : next.getTime() / 1000;
    }).join(' ');
  } catch (error) {
    return 'refused\t' + String(error.message).replace(/\s+/g, ' ');
  }
}

const lines = fs.readFileSync(0, 'utf8').split('\n').filter((line) => line !== '');
const out = lines.map((line) => {
  const [expression, zone, instants] = line.split('\t');
  return dump(expression, zone, instants.split(' ').map(Number));
});
fs.writeFileSync(1, out.join('\n') + '\n');
