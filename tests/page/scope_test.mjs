// The form of a notification turns people's choices into filters of the API, and filters into choices again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { filterOfScope, scopeOf, scopeProblem, scopeText } from '../../web/parts/scope.js';

test('choices become filters and come back, whatever text they have', () => {
  for (const [kind, text, filter] of [
    ['all', '', ''], ['one', 'nightly', 'name = "nightly"'], ['one', '0.a-b_c', 'name = "0.a-b_c"'], ['label', 'team=billing', 'labels.team = "billing"'], ['label', 'app.io=a=b', 'labels.app.io = "a=b"'],
    ['label', 'app.io/part=x y', 'labels."app.io/part" = "x y"'], ['label', 'team=', 'labels.team = ""'], ['label', 'a.=1', 'labels."a." = "1"'], ['label', 'say "hi" \\=\\"', 'labels."say \\"hi\\" \\\\" = "\\\\\\""'], ['label', 'größe=ß', 'labels."größe" = "ß"'],
    ['own', 'name = "nightly-*"', 'name = "nightly-*"'], ['own', 'labels.a = b AND labels.c = d', 'labels.a = b AND labels.c = d'], ['own', 'NOT name = "a"', 'NOT name = "a"'],
  ]) {
    assert.equal(scopeProblem({ kind, text }), '', text);
    assert.equal(filterOfScope({ kind, text }), filter);
    assert.deepEqual(scopeOf(filter), { kind, text }, filter);
  }
});

test('filters that others have written are read as choices if they are ones', () => {
  for (const [filter, kind, text] of [
    [undefined, 'all', ''], ['  ', 'all', ''], ['name=nightly', 'one', 'nightly'], [' name = "tenants/t/schedules/nightly" ', 'one', 'nightly'], ['labels."team"=billing', 'label', 'team=billing'],
    ['name = ""', 'own', 'name = ""'], ['name != a', 'own', 'name != a'], ['labels."a=b" = c', 'own', 'labels."a=b" = c'], ['labels.a = " b"', 'own', 'labels.a = " b"'],
    ['name = "a" OR name = "b"', 'own', 'name = "a" OR name = "b"'], ['labels.a = "b" OR labels.c = "d"', 'own', 'labels.a = "b" OR labels.c = "d"'], ['name = "a" x"', 'own', 'name = "a" x"'],
  ]) assert.deepEqual(scopeOf(filter), { kind, text }, filter);
});

test('a choice that is not made yet is none, and never means all schedules', () => {
  for (const kind of ['one', 'own', 'label']) for (const text of ['', '  ']) assert.notEqual(scopeProblem({ kind, text }), '');
  for (const text of ['team', '=billing', ' =b']) assert.notEqual(scopeProblem({ kind: 'label', text }), '');
});

test('a filter is said in words', () => {
  assert.equal(scopeText(''), 'All schedules');
  assert.equal(scopeText('name = "nightly"'), 'The schedule nightly');
  assert.equal(scopeText('labels.team = "a b"'), 'Schedules with the label team=a b');
  assert.equal(scopeText('state = PAUSED'), 'Schedules that match state = PAUSED');
});
