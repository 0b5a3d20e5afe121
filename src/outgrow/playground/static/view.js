// What is said and drawn of the step that is shown: boards, verdicts, curves.

import { chart, key, thin } from './charts.js';
import { $, frameOf, length, paragraph, shownValues, state } from './state.js';

const DASHES = ['', '6 4', '2 3', '8 3 2 3'];

export function say(words, kind = '') {
  if ($('verdict').textContent !== words) $('verdict').textContent = words;
  $('verdict').className = `verdict ${kind}`;
}

// The verdict on what is shown: on the entries, or on a step of the first network.
export function sayStep() {
  if (!state.at) {
    const { words = '', solved, broken } = state.checked ?? {};
    say(words, solved ? 'good' : broken ? 'wrong' : '');
    return;
  }
  const lane = state.lanes.find((l) => l.run?.frames.length);
  const frame = frameOf(lane);
  const { end, exact } = lane.run;
  const whose = state.lanes.length > 1 && !frame.exact ? `${lane.weights}: ` : '';
  const at = `Step ${frame.step}: ${frame.broken} broken ${frame.broken === 1 ? 'rule' : 'rules'}, ${Math.round(100 * frame.confidence)}% sure on average.`;
  if (frame.exact) say(`The exact solver (not a network) ${exact.words}.`, 'good');
  else if (frame.solved) say(`${whose}Solved: every rule holds and every given is kept.`, 'good');
  else if (frame !== lane.run.frames.at(-1) || !end) say(whose + at);
  else if (end.status === 'stopped') say(`${whose}Stopped. ${at}`);
  else say(`${whose}Not solved. ${end.words}`, 'wrong');
}

export function sayRun(lane) {
  const { run } = lane;
  const frame = frameOf(lane);
  const parts = [];
  if (frame?.exact) parts.push(`exact solver · ${Math.round(frame.milliseconds)} ms`);
  else if (frame) parts.push(`step ${frame.step}${frame.attempt ? `, attempt ${frame.attempt + 1}` : ''} · ${Math.round(frame.milliseconds)} ms · ${frame.solved ? 'no rule broken' : `${frame.broken} broken`}`);
  lane.said.replaceChildren(parts.join(' · '));
  if (run?.end) {
    const { end } = run;
    const verdict = document.createElement('span');
    const steps = `${end.steps} ${end.steps === 1 ? 'step' : 'steps'}`;
    if (end.status === 'solved') {
      verdict.className = 'ok';
      verdict.textContent = `Solved in ${steps}, ${Math.round(end.milliseconds)} ms`;
    } else if (end.status === 'unsolved') {
      verdict.className = 'no';
      verdict.textContent = `Not solved in ${steps}, ${Math.round(end.milliseconds)} ms`;
    } else {
      verdict.className = 'no';
      verdict.textContent = end.words;
    }
    lane.said.append(' ', verdict);
    if (run.exact) lane.said.append(` — exact solver: ${run.exact.words}`);
  }
}

export function showLane(lane) {
  const frame = frameOf(lane);
  const labels = !state.playing;
  const found = state.at ? frame : state.checked;
  if (frame) {
    const broken = new Set(frame.pairs.flat());
    lane.board.show({ values: frame.values, beliefs: frame.beliefs, broken, pairs: frame.pairs, guess: frame.guess, strong: frame.solved, arrows: lane === state.heard?.lane && state.heard.at === state.at ? state.heard.arrows : [] }, labels);
  } else {
    const values = shownValues();
    const pairs = state.checked?.pairs ?? [];
    lane.board.show({ values, broken: new Set(pairs.flat()), pairs }, labels);
  }
  lane.card.classList.toggle('solved', Boolean(found?.solved));
  sayRun(lane);
}

export function drawCurve() {
  const runs = state.lanes.filter((lane) => lane.run?.frames.length);
  const place = $('curve');
  if (!runs.length) {
    if (!state.solving) place.replaceChildren(paragraph('How sure the network is of its values, and how many rules they break, step by step.'));
    return;
  }
  const worst = runs.reduce((most, lane) => lane.run.frames.reduce((m, f) => Math.max(m, f.broken), most), 2);
  const series = runs.flatMap((lane) => {
    const dash = DASHES[state.lanes.indexOf(lane)];
    const frames = thin(lane.run.frames.map((f, i) => ({ i: i + 1, f })));
    return [
      { color: 'var(--accent)', dash, points: frames.map(({ i, f }) => [i, f.confidence]) },
      { color: 'var(--bad)', dash, right: true, points: frames.map(({ i, f }) => [i, f.broken]) },
    ];
  });
  const names = [{ name: 'confidence', color: 'var(--accent)' }, { name: 'broken rules', color: 'var(--bad)' }];
  if (runs.length > 1) names.push(...runs.map((lane) => ({ name: lane.weights, color: 'var(--muted)', dash: DASHES[state.lanes.indexOf(lane)] })));
  const last = runs[0].run.frames.at(-1);
  const label = `Over ${length()} steps: confidence ends at ${Math.round(100 * last.confidence)}%, ${last.broken} rules broken at the end`;
  place.replaceChildren(chart({ label, series, x: [1, Math.max(2, length())], rightTop: worst + (worst % 2), cursor: state.at || undefined }), key(names));
}

export function complain(words, bad = true) {
  $('notice').textContent = words;
  $('notice').classList.toggle('bad', bad);
  $('notice').hidden = false;
}

export function quiet() {
  $('notice').hidden = true;
}
