"""The next occurrence of cron expressions by Debian's python3-croniter.

Lines in and out are those of croner_dump.js, but a line ends with its first "none". Beforehand an expression is put into croniter's words where the same
thing is only written otherwise (see translate); one that croniter has no words for is "unspoken".
"""

import datetime
import re
import sys

import pytz
from croniter.croniter import CroniterBadDateError, CroniterError, croniter

WEEKDAYS = dict(sun=0, mon=1, tue=2, wed=3, thu=4, fri=5, sat=6)


def weekday_item(item):
    """`dL` and `d#L` are `Ld`, of a number."""
    last = re.fullmatch(r"(\w+?)#?l", item, flags=re.I)
    return f"L{WEEKDAYS.get(last[1].lower(), last[1])}" if last else item


def translate(expression):
    """(expression in croniter's words, whether both day fields must match), or None if it has no words for it."""
    if expression.startswith("@"):
        return expression, False
    fields = expression.split()
    if len(fields) == 7:
        return None  # croniter has no field for years
    seconds = [fields.pop(0)] if len(fields) == 6 else []  # croniter has seconds as the last field
    if len(fields) != 5:
        return expression, False
    minute, hour, day, month, weekday = fields
    if re.search(r"w|l-", day, re.I):
        return None  # croniter has no nearest weekday, nor days before the last
    if weekday in ("+*", "+?"):
        return None
    both = weekday.startswith("+")
    weekday = ",".join(weekday_item(item) for item in weekday.removeprefix("+").split(","))
    star = {"?": "*"}
    return " ".join([minute, hour, star.get(day, day), month, star.get(weekday, weekday), *seconds]), both


def dump(expression, zone, instants):
    translated = translate(expression)
    if translated is None:
        return "unspoken"
    text, both = translated
    tz = pytz.timezone(zone)
    starts = [datetime.datetime.fromtimestamp(after, tz) for after in instants]
    try:
        runs = croniter(text, starts[0], day_or=not both)
    # croniter raises NameError by a mistake of its own.
    except (CroniterError, ValueError, KeyError, NameError) as error:
        return "refused\t" + " ".join(str(error).split())
    found = []
    for start in starts:
        try:
            found.append("%d" % runs.get_next(float, start_time=start))
        except CroniterBadDateError:
            found.append("none")  # none within its 50 years, which take long to search
            break
    return " ".join(found)


def main():
    for line in sys.stdin:
        expression, zone, instants = line.rstrip("\n").split("\t")
        print(dump(expression, zone, [int(after) for after in instants.split()]))


if __name__ == "__main__":
    main()
