"""Compares the days that the master reads from iCalendar files with Debian's python3-dateutil: rules of recurrence drawn from a seed."""

import datetime
import random
import subprocess
import sys

from dateutil.rrule import rrulestr

TODAY = datetime.date(2026, 11, 30)
BEGIN = datetime.date.fromordinal(TODAY.toordinal() - 366)
END = datetime.date.fromordinal(TODAY.toordinal() + 10 * 366)
EPOCH = datetime.date(1970, 1, 1).toordinal()
datetime.MAXYEAR = END.year  # where dateutil ends its search
WEEKDAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]


def numbers(draw, most, low, high, negative=False):
    chosen = draw.sample(range(low, high + 1), draw.randint(1, most))
    return ",".join(str(-n if negative and draw.random() < 0.3 else n) for n in chosen)


def rule(draw, start):
    freq = draw.choice(["DAILY", "WEEKLY", "MONTHLY", "YEARLY", "YEARLY"])
    parts = [f"FREQ={freq}"]
    if draw.random() < 0.4:
        parts.append(f"INTERVAL={draw.randint(1, 5)}")
    if draw.random() < 0.4:
        parts.append(f"BYMONTH={numbers(draw, 3, 1, 12)}")
    if freq != "WEEKLY" and draw.random() < 0.3:
        parts.append(f"BYMONTHDAY={numbers(draw, 3, 1, 31, True)}")
    if freq == "YEARLY" and draw.random() < 0.2:
        parts.append(f"BYYEARDAY={numbers(draw, 4, 1, 366, True)}")
    if draw.random() < 0.5:
        numbered = freq in ("MONTHLY", "YEARLY") and draw.random() < 0.7
        days = draw.sample(WEEKDAYS, draw.randint(1, 2))
        parts.append("BYDAY=" + ",".join((draw.choice(["1", "+2", "3", "4", "-1", "-2"]) if numbered else "") + day for day in days))
    if len(parts) > 1 and any(part.startswith("BY") for part in parts) and draw.random() < 0.25:
        parts.append(f"BYSETPOS={numbers(draw, 2, 1, 3, True)}")
    if draw.random() < 0.3:
        parts.append(f"WKST={draw.choice(WEEKDAYS)}")
    end = draw.random()
    if end < 0.2:
        parts.append(f"COUNT={draw.randint(1, 60)}")
    elif end < 0.4:
        until = datetime.date.fromordinal(start.toordinal() + draw.randint(0, 6000))
        parts.append(f"UNTIL={until:%Y%m%d}")
    draw.shuffle(parts)
    return ";".join(parts)


def expected(text, start, excluded):
    days = (time.date() for time in rrulestr(text, dtstart=datetime.datetime.combine(start, datetime.time())))
    return [day for day in days if BEGIN <= day <= END and day not in excluded]


def main():
    draw = random.Random(20261130)
    cases = []
    for _ in range(1500):
        start = datetime.date.fromordinal(draw.randint(datetime.date(1995, 1, 1).toordinal(), END.toordinal()))
        text = rule(draw, start)
        days = expected(text, start, set())
        excluded = set(draw.sample(days, min(len(days), draw.randint(0, 2))))
        lines = ["BEGIN:VCALENDAR", "BEGIN:VEVENT", f"DTSTART;VALUE=DATE:{start:%Y%m%d}", f"RRULE:{text}"]
        lines += [f"EXDATE;VALUE=DATE:{day:%Y%m%d}" for day in excluded]
        lines += ["END:VEVENT", "END:VCALENDAR"]
        cases.append((f"{start} {text}", "\\n".join(lines), [day for day in days if day not in excluded]))
    today = TODAY.toordinal() - EPOCH
    given = "".join(f"{today}\t{ics}\n" for _, ics, _ in cases)
    answers = subprocess.run([sys.argv[1]], input=given, text=True, capture_output=True, check=True).stdout.splitlines()
    assert len(answers) == len(cases), (len(answers), len(cases))
    wrong = compared = 0
    for (name, _, days), answer in zip(cases, answers):
        if len(days) > 1000:
            want = "error: has more than 1000 days"
        elif days:
            want = ",".join(str(day) for day in days)
            compared += 1
        else:
            want = "error: has no event"
        if not (answer == want or (want.startswith("error") and answer.startswith(want))):
            wrong += 1
            if wrong <= 10:
                print(f"{name}\n  dateutil: {want[:300]}\n  master:   {answer[:300]}")
    assert compared > 500, compared
    print(f"{len(cases)} rules, {compared} with days, {wrong} wrong")
    return 1 if wrong else 0


sys.exit(main())
