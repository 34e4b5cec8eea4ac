"""Random cases for the oracles: the same for the same seed."""

import collections
import random

# `after` is in Unix seconds; occurrences are strictly after it.
Case = collections.namedtuple("Case", "expression zone after count")

DAY = 86400
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
WEEKDAYS = "SUN MON TUE WED THU FRI SAT".split()

# Zones whose rules for these years are the same in all databases. They have gaps of half an hour
# (Lord Howe), of a day (Apia) and at midnight (Sao Paulo, Beirut, Asuncion), odd offsets (St Johns,
# Kathmandu), permanent changes (Caracas, Moscow), four changes a year (Casablanca) and changes of
# two hours (Troll).
ZONES = """America/New_York Europe/Berlin Australia/Lord_Howe Pacific/Apia America/Sao_Paulo Asia/Beirut America/Asuncion
America/St_Johns Asia/Kathmandu America/Caracas Europe/Moscow Africa/Casablanca Antarctica/Troll Europe/Dublin
Pacific/Auckland Asia/Tehran America/Havana Asia/Amman Australia/Adelaide America/Los_Angeles""".split()
ZONED_YEARS = (1996, 2021)  # first and last
UTC_YEARS = (1970, 2190)


class Generator:
    def __init__(self, seed, changes):
        """`changes`: zone → instants (Unix seconds) at which its offset changes."""
        self.random = random.Random(seed)
        self.changes = changes

    def case(self):
        expression = self.expression()
        if self.random.random() < 0.4:
            first, last = (self.year_start(y) for y in UTC_YEARS)
            return Case(expression, "UTC", self.random.randrange(first, last), 12)
        zone = self.random.choice(ZONES)
        first, last = (self.year_start(y) for y in ZONED_YEARS)
        after = self.random.randrange(first, last)
        if self.changes[zone] and self.random.random() < 0.75:
            after = self.random.choice(self.changes[zone]) - self.random.randrange(-3 * 3600, 40 * 3600)
        return Case(expression, zone, after, 12)

    @staticmethod
    def year_start(year):
        return int((year - 1970) * 365.2425 * DAY)

    def expression(self):
        random_ = self.random
        if random_.random() < 0.01:
            return random_.choice(["@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"])
        minute = self.field(0, 59, stars=0.15)
        hour = self.field(0, 23, stars=0.25) if random_.random() < 0.5 else self.field(0, 23, 0.1, near=range(0, 5))
        day = self.day_of_month()
        month = self.field(1, 12, stars=0.65, names=MONTHS)
        weekday = self.day_of_week()
        fields = [minute, hour, day, month, weekday]
        kind = random_.random()
        if kind < 0.3:
            fields.insert(0, self.field(0, 59, stars=0.1))
        elif kind < 0.4:
            fields.insert(0, str(random_.randrange(60)))
            fields.append(self.year())
        return " ".join(fields)

    def field(self, low, high, stars, names=None, near=None, high_step=None):
        """A list of one or more items, or `*`. `near`: values to prefer."""
        if self.random.random() < stars:
            return "*"
        items = [self.item(low, high, names, near, high_step)]
        while self.random.random() < 0.25:
            items.append(self.item(low, high, names, near, high_step))
        return ",".join(items)

    def item(self, low, high, names, near, high_step):
        random_ = self.random
        pick = (lambda: random_.choice(near)) if near else (lambda: random_.randint(low, high))
        show = lambda v: names[v - low] if names and v - low < len(names) and random_.random() < 0.4 else str(v)
        a, b = pick(), random_.randint(low, high)
        if random_.random() < 0.85 and a > b:
            a, b = b, a  # only few ranges wrap
        step = random_.randint(1, high_step or min(high, 20))
        kind = random_.randrange(8)
        if kind == 0:
            return f"{show(a)}-{show(b)}"
        if kind == 1:
            return f"{show(a)}-{show(b)}/{step}"
        if kind == 2:
            return f"{show(a)}/{step}"
        if kind == 3:
            return f"*/{step}"
        return show(a)

    def day_of_month(self):
        random_ = self.random
        text = self.field(1, 31, stars=0.55)
        kind = random_.random()
        if kind < 0.05:
            return "?"
        if kind > 0.12:
            return text
        special = random_.choice(["L", "L", f"L-{random_.randint(0, 30)}", f"{random_.randint(1, 31)}W", "LW", "15W",
                                  f"L-{random_.randint(0, 9)}W"])
        return special if text == "*" or random_.random() < 0.6 else f"{special},{text}"

    def day_of_week(self):
        random_ = self.random
        text = self.field(0, 7, stars=0.55, names=WEEKDAYS, high_step=7)
        kind = random_.random()
        if kind < 0.05:
            return "?"
        if kind < 0.15:
            day = random_.choice([str(random_.randint(0, 7)), random_.choice(WEEKDAYS)])
            special = random_.choice([f"{day}#{random_.randint(1, 5)}", f"{day}L", f"{day}#L"])
            text = special if text == "*" or random_.random() < 0.7 else f"{special},{text}"
        if text != "*" and random_.random() < 0.1:
            text = "+" + text
        return text

    def year(self):
        random_ = self.random
        a = random_.randint(1990, 2030)
        return random_.choice(["*", str(a), f"{a}-{a + random_.randint(0, 30)}", f"{a}/{random_.randint(1, 9)}",
                               f"*/{random_.randint(1, 9)}", f"{a},{a + random_.randint(1, 9)}",
                               f"{a}-{a + 40}/{random_.randint(1, 9)}"])


# Changes that are not daylight saving: Apia skips 30 December 2011, and Kwajalein skips 21 August
# 1993 (a day each).
FIXED = [
    Case(expression, zone, after, 3)
    for zone, after in [("Pacific/Apia", 1325152800 - 86400 * 2), ("Pacific/Kwajalein", 745934400 - 86400 * 2)]
    for expression in ["0 12 * * *", "0 0 * * *", "30 23 * * *", "0 12 30 12 *", "0 12 21 8 *", "0 */6 * * *", "0 0 21,30 * *",
                       "0 12 L * *", "0 9 * * FRI", "0 9 * * SAT", "* 3 30 * *"]
] + [Case("@yearly", "UTC", 7_226_582_400 + DAY, 3)]  # 2199-01-02: near the end of our years

# Lists of all values, on the nights in which New York's clocks change in 2021.
FIXED += [Case(expression, "America/New_York", after, 5)
          for expression in ["0-59 2 * * *", "30 0-23 * * *", "0-59 1 * * *", "0,30 0-23 * * *"]
          for after in (1615694400, 1636257600)]

# For these it only matters which program refuses them.
REFUSALS = """
60 * * * *|* 24 * * *|* * 0 * *|* * 32 * *|* * * 0 *|* * * 13 *|* * * * 8|60 * * * * *|* * * *|* * * * * * * *|*/0 * * * *
*/60 * * * *|* */24 * * *|* * */32 * *|* * * */13 *|* * * * */8|5/60 * * * *|1-5/60 * * * *|,1 * * * *|1,,2 * * * *|1, * * * *
1- * * * *|-1 * * * *|1-2-3 * * * *|1/ * * * *|/5 * * * *|1/2/3 * * * *|a * * * *|1.5 * * * *|*,5 * * * *|5,* * * * *
* * *,5 * *|* * * * *,1|** * * * *|*-5 * * * *|? * * * *|* ? * * *|* * * ? *|* * ? * ?|* * ?,1 * *|* * ?/2 * *|001 * * * *
* * 001 * *|05 * * * *|* * L * *|* * L/2 * *|* * L-31 * *|* * 1-L * *|* * LL * *|* * W * *|* * 0W * *|* * 32W * *|* * 1-5W * *
* * 15W/2 * *|* * WL * *|* * * * L|* * * * MON#0|* * * * MON#6|* * * * MON#|* * * * #1|* * * * 1-5#2|* * * * 1#2/3|* * * * 8#1
* * * * 8L|* * * * MONDAY|* * * JANUARY *|* * * * MO|* * * JA *|* * MON * *|* * * MON *|JAN * * * *|* * * * +|* * * * +*|* * * * +?
* * +1 * *|* * 1 * ++MON|* * 1 * MON,+TUE|0 * * * * * 1969|0 * * * * * 2200|0 * * * * * 2030-2020|0 * * * * * L|0 * * * * * 99
@reboot|@Daily|@every 5m|@|@daily extra|* * * * MON-|* * * * -MON|* * * * MON/8|* * * * 0/7|H * * * *|R * * * *|* * * * LMON|* * * * L5
* * LW * *|* * lw * *|* * l * *|* * 15w * *|* * * * friL|* * * * fri#l|* * * * 5#L,1|* * * * sun-sat|* * * * 7|* * * * 0-7|* * 31 2 *
""".replace("\n", "|").strip("|").split("|")
