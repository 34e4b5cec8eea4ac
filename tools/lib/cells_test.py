#!/usr/bin/env python3
"""Tests of cells.py and of the tables in docs/design/cells.md. Run by //tools/lib:cells_test, or directly."""
import math
import os
import sys
import unittest

sys.dont_write_bytecode = True  # the folder is the source tree's
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import cells

DOCUMENT = os.path.join(HERE, "../../docs/design/cells.md")
SEEDS = (1, 2, 3)
SOME = 1000  # tenants, where a test does not need them all


def capped_tenants() -> list[cells.Tenant]:
    return cells.cut(cells.make_tenants(SOME, 1.0), 0.5 / cells.CELLS)


class CellsTest(unittest.TestCase):
    def tearDown(self):
        cells.seed = 1

    def test_document_has_the_tables_that_the_program_prints(self):
        with open(DOCUMENT, encoding="utf-8") as file:
            document = file.read()
        for table in cells.report(cells.TENANTS, cells.CELLS).split("\n\n"):
            self.assertIn(table, document, "run tools/dev cells and copy its tables")

    def test_fullest_second_of_the_day_is_one_of_the_moments(self):
        for rank in range(200):
            firing, ahead = cells.firing_of(str(rank), 1000), cells.zone_of(str(rank))
            of_day = max(cells.due_at(firing, ahead, minute) for minute in range(1440))
            self.assertEqual(of_day, max(cells.due_at(firing, ahead, minute) for minute in cells.MOMENTS))

    def test_mean_rate_is_what_falls_due_in_a_day(self):
        for rank in range(20):
            firing, ahead = cells.firing_of(str(rank), 1000), cells.zone_of(str(rank))
            # Once for each minute of the day; any_minute is in each of them with 1/1440.
            in_a_day = sum(cells.due_at(firing, ahead, minute) for minute in range(1440))
            self.assertAlmostEqual(in_a_day / cells.DAY_S, cells.schedule_load(str(rank), 1000).mean)

    def test_tenants_have_all_schedules_and_zipf_rates(self):
        tenants = cells.make_tenants(SOME, 1.0)
        rates = [t.load.mean for t in tenants]
        for rank in (2, 10, SOME):
            self.assertAlmostEqual(rates[0] / rates[rank - 1], rank)
        bytes_of_outcomes = sum(t.schedules.mean for t in tenants) * cells.KEPT_S * cells.OUTCOME_BYTES
        stored = sum(t.schedules.stored for t in tenants) - bytes_of_outcomes
        self.assertAlmostEqual(stored / cells.SCHEDULE_BYTES / cells.SCHEDULES, 1)

    def test_cutting_and_spreading_lose_nothing(self):
        tenants = cells.make_tenants(SOME, 1.0)
        whole = cells.sum_of(t.load for t in tenants)
        cut = cells.cut(tenants, 0.001)
        self.assertGreater(len(cut), SOME)
        self.assertLessEqual(max(cells.Filling(cut, 1).size.values()), 0.001 * (1 + 1e-9))
        spread = cells.loads_of(tenants, cells.by_hash(tenants, 8), 8, tenants[0].name)
        for other in (cells.sum_of(t.load for t in cut), cells.sum_of(spread)):
            self.assertTrue(math.isclose(other.stored, whole.stored) and math.isclose(other.mean, whole.mean))
            for due, of_whole in zip(other.due, whole.due):
                self.assertTrue(math.isclose(due, of_whole))

    def test_no_placement_beats_the_largest_tenant(self):
        tenants = cells.make_tenants(SOME, 1.0)
        alone = cells.fullest([t.load for t in tenants], cells.sum_of(t.load for t in tenants), cells.CELLS)
        for place in (cells.by_hash, cells.by_highest_hash, cells.by_two_choices, cells.by_table):
            for value, least in zip(cells.fullest(cells.loads_of(tenants, place(tenants, cells.CELLS), cells.CELLS)), alone):
                self.assertGreaterEqual(value, least * (1 - 1e-9))

    def test_table_is_evener_than_two_choices_and_they_than_a_hash(self):
        for cells.seed in SEEDS:
            tenants = capped_tenants()
            hashed, chosen, tabled = (max(cells.fullest(cells.loads_of(tenants, place(tenants, cells.CELLS), cells.CELLS)))
                                      for place in (cells.by_hash, cells.by_two_choices, cells.by_table))
            self.assertLess(tabled, 1.3)
            self.assertLess(tabled, chosen)
            self.assertLess(chosen, hashed)

    def test_new_cell_takes_tenants_and_no_other_cell_does(self):
        tenants = capped_tenants()
        number = cells.CELLS - 1
        table = cells.by_table(tenants, number)
        for old, new in ((table, cells.with_new_cell(tenants, table, number)),
                         (cells.by_highest_hash(tenants, number), cells.by_highest_hash(tenants, number + 1))):
            moved = [name for name in old if new[name] != old[name]]
            self.assertTrue(moved)
            self.assertEqual({new[name] for name in moved}, {number})
            self.assertLess(len(moved), len(tenants) / 20)
        old, new = cells.by_hash(tenants, number), cells.by_hash(tenants, number + 1)
        self.assertGreater(sum(new[name] != old[name] for name in old), 0.95 * len(tenants))

    def test_new_cell_is_filled_up_to_its_part(self):
        tenants = capped_tenants()
        number = cells.CELLS - 1
        placement = cells.with_new_cell(tenants, cells.by_table(tenants, number), number)
        filling = cells.Filling(tenants, number + 1)
        for name, cell in placement.items():
            filling.put(cell, name)
        self.assertLessEqual(filling.full[number], (1 + 1e-9) / (number + 1))
        self.assertGreaterEqual(filling.full[number], 0.9 / (number + 1))

    def test_same_seed_prints_the_same_and_another_seed_does_not(self):
        first = cells.report(100, 8)
        self.assertEqual(first, cells.report(100, 8))
        cells.seed = 2
        self.assertNotEqual(first, cells.report(100, 8))


if __name__ == "__main__":
    unittest.main()
