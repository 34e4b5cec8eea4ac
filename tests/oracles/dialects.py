"""What croniter and croner mean otherwise than we do, each difference a named class that predicts what they say.

A dialect answers:
  why_only_theirs_refuses / why_only_ours_refuses(expression) → class or None
  reads(expression) → (the expression that says in our words what the oracle reads, classes): the oracle's answers
      must be ours to that expression
  needs(expression) → expressions in our words that the oracle must find, or finds nothing at all
  moves(...) → for questions about that expression, (class, instant) of what it does to an occurrence when the
      offset changes, or None
  skips(...) → the same for one answer to such a question
  gives_up(case, after, ours, theirs) → class of an answer that is not found although there is one
"""

import calendar
import datetime
import re

WEEKDAYS = "sun mon tue wed thu fri sat".split()
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
HIGHEST = dict(second=59, minute=59, hour=23, day=31, month=12, weekday=7, year=2199)
LOWEST = dict(day=1, month=1, year=1970)
FIELDS = ["second", "minute", "hour", "day", "month", "weekday", "year"]

END = calendar.timegm((2200, 1, 1, 0, 0, 0))  # we have no occurrence after this
YEAR = 365.2425 * 86400


def split(expression):
    """Field → text; empty for macros and for what has not 5 to 7 fields."""
    fields = expression.split()
    names = {5: FIELDS[1:6], 6: FIELDS[:6], 7: FIELDS}.get(len(fields), [])
    return dict(zip(names, fields))


def join(fields):
    return " ".join(fields[name] for name in FIELDS if name in fields)


def value(name, text):
    names = {"weekday": WEEKDAYS, "month": [None] + MONTHS}.get(name, [])
    return names.index(text.lower()) if text.lower() in names else int(text)


def items(name, text):
    """The items of a field as (text, first, last, step), of others than numbers (text, None, None, None)."""
    for item in text.removeprefix("+").split(","):
        range_, _, step = item.partition("/")
        first, dash, last = range_.partition("-")
        try:
            low = LOWEST.get(name, 0) if first == "*" else value(name, first)
            if dash:
                high = value(name, last)
            else:
                high = HIGHEST[name] if step else low
            if range_ == "*" and not step:
                raise ValueError
            yield item, low, high, int(step) if step else 1
        except ValueError:
            yield item, None, None, None


def restricted(text):
    return text not in ("*", "?")


def is_or(fields):
    """Both day fields are restricted, and either matches."""
    return restricted(fields["day"]) and restricted(fields["weekday"]) and not fields["weekday"].startswith("+")


def wraps(expression, weekday_but):
    """Has it a range that wraps, other than those weekdays that match?"""
    return any(low is not None and low > high and not (name == "weekday" and re.search(weekday_but, item, re.I))
               for name, text in split(expression).items() for item, low, high, _ in items(name, text))


def loose(expression):
    """Why both oracles take what we refuse, or None."""
    for name, text in split(expression).items():
        for item in text.removeprefix("+").split(","):
            step = re.search(r"/(\d+)$", item)
            if step and int(step[1]) > HIGHEST[name] - (name == "year") * 1970:
                return "step beyond the field"
            if item == "*" and "," in text:
                return "* inside a list"
            if re.fullmatch(r"\d{3}", item):
                return "number of three digits"
    return None


class Croniter:
    name = "croniter"
    horizon = 49 * YEAR  # it finds nothing more than 50 calendar years away

    def why_only_theirs_refuses(self, expression):
        if wraps(expression, weekday_but=r"-(0|SUN)(/|$)"):
            return "wrapping range"
        nth, plain = self.weekdays(split(expression))
        days = {day for day, _ in nth}
        if nth and plain - days and len(plain | days) != 7:
            return "d#k beside another weekday"
        return None

    def why_only_ours_refuses(self, expression):
        fields = split(expression)
        if re.search(r"\w-L", fields.get("day", ""), re.I):
            return "range to L"
        if re.search(r"#\d/", fields.get("weekday", "")):
            return "step of d#k"
        if re.match(r"L\w", fields.get("weekday", ""), re.I):
            return "Ld for dL"
        if re.search(r"\b[RH]\b", expression, re.I):
            return "R is any value"
        return loose(expression)

    @staticmethod
    def weekdays(fields):
        """The set of (day, k) of d#k and dL, and the values of the other items as croniter has them."""
        nth, plain = set(), set()
        fold = (lambda day: day) if "second" in fields else (lambda day: day % 7)
        for item, low, high, step in items("weekday", fields.get("weekday", "")):
            special = re.fullmatch(r"(\w+?)(?:#(\d)|#?(L))", item, re.I)
            if special and low is None:
                nth.add((fold(value("weekday", special[1])), special[2] or "L"))
            elif low is not None:
                plain.update(fold(day) for day in range(low, (7 if high == 0 and low > 0 else high) + 1, step))
        return nth, plain

    @staticmethod
    def days(fields):
        return {day for _, low, high, step in items("day", fields["day"]) if low is not None
                for day in range(low, high + 1, step)}

    def reads(self, expression):
        """None instead of the expression if it finds nothing at all."""
        fields, names = split(expression), []
        if not fields or len(fields) == 7:
            return expression, names
        nth, plain = self.weekdays(fields)
        days = self.days(fields)
        full = len(plain | {day for day, _ in nth}) == 7
        if is_or(fields) and nth and not full:
            fields["day"] = "*"
            names.append("d#k hides the day of month")
        if nth and plain:
            fields["weekday"] = ("+" if full or "+" in fields["weekday"] else "") + ",".join(
                f"{day}#{k}" for day, k in sorted(nth))
            names.append("d#k hides other weekdays")
        elif len(plain) == 7 and restricted(fields["weekday"]):
            fields["weekday"] = "*"
            names.append("full day field is *")
        elif 7 in plain:
            names.append("7 beside seconds is no day")
            plain.remove(7)
            if not plain:
                return None, names
            fields["weekday"] = ("+" if "+" in fields["weekday"] else "") + ",".join(map(str, sorted(plain)))
        if len(days) == 31 and "L" not in fields["day"].upper():
            fields["day"] = "*"
            names.append("full day field is *")
        return join(fields), names

    def needs(self, expression):
        """(expression, class): it finds nothing at all if it does not find this within 50 years."""
        fields = split(expression)
        if not fields or not is_or(fields):
            return []
        nth, plain = self.weekdays(fields)
        if len(plain | {day for day, _ in nth}) == 7:
            return []  # means the same as `*`
        only_nth = ",".join(f"{day}#{k}" for day, k in sorted(nth))
        days = dict(fields, weekday="+" + only_nth if nth else "*")
        weekdays = dict(fields, day="*")
        return [(join(part), "one impossible day field hides the other") for part in (days, weekdays)]

    def moves(self, ours, offsets, questions):
        """It computes in the wall clock of the instant after which it looks, and puts that right only when the result
        is on another day."""
        starts = []
        for text, zone, after in questions:
            step = 1 if text and "second" in split(text) else 60
            wall = after + step + offsets.at(zone, after + step)
            starts.append(wall - 1 if step == 1 else wall - wall % 60 - 1)
        walls = ours.next_of([(text, "UTC", start) for (text, _, _), start in zip(questions, starts)])
        answers = []
        for (text, zone, after), wall in zip(questions, walls):
            if wall is None:
                answers.append(None)
                continue
            step = 1 if "second" in split(text) else 60
            result = wall - offsets.at(zone, after + step)
            start_offset = offsets.at(zone, after)
            lag = offsets.at(zone, result) - start_offset
            to_midnight = 24 * 3600 - (after + start_offset) % 86400 // 3600 * 3600
            if (lag > 0 and result - after >= to_midnight) or (lag < 0 and result - after - lag >= to_midnight):
                result -= lag
            answers.append(("clock of the start", result))
        return answers

    def skips(self, ours, offsets, zone, text, after, found):
        """(class, instant) if it misses `found`: looking for a day that February has not it counts on into March, and
        goes on from there."""
        fields = split(text or "")
        if not fields or found is None:
            return None
        local = found + offsets.at(zone, found)
        date = datetime.datetime.utcfromtimestamp(local)
        length = calendar.monthrange(date.year, 2)[1]
        beyond = [day - length for day in self.days(fields) if day > length]
        if date.month != 3 or not beyond or date.day >= min(beyond):
            return None
        landing = found - local % 86400 + (min(beyond) - date.day) * 86400
        if not is_or(fields):
            return "day that February lacks hides 1 March", ours.next_of([(text, zone, landing - 1)])[0]
        answers = ours.next_of([(join(dict(fields, weekday="*")), zone, landing - 1),
                                (join(dict(fields, day="*")), zone, after)])
        return "day that February lacks hides 1 March", min(answer for answer in answers if answer is not None)

    def gives_up(self, case, after, ours, theirs):
        if ours is None and theirs is not None and theirs >= END:
            return "beyond 2199"
        return None


class Croner:
    name = "croner"
    horizon = 400 * YEAR

    def why_only_theirs_refuses(self, expression):
        if wraps(expression, weekday_but=r"-SUN(/|$)"):
            return "wrapping range"
        day = split(expression).get("day", "")
        if re.search(r"L-", day, re.I):
            return "L-n"
        if re.search(r"LW", day, re.I) and "," in day:
            return "LW in a list"
        return None

    def why_only_ours_refuses(self, expression):
        for name, text in split(expression).items():
            if "?" in text and not (name in ("day", "weekday") and text == "?"):
                return "? is * anywhere"
            if re.search(r"(^|,)/", text):
                return "step without a start"
            if name == "weekday" and re.search(r"\w-\w+(#|L)", text, re.I):
                return "range of d#k"
            if name == "weekday" and text in ("+*", "+?"):
                return "+ before *"
            if name == "year" and any(low is not None and not 1970 <= low <= high <= 2199 and low <= high
                                      for _, low, high, _ in items(name, text)):
                return "years beyond 1970-2199"
        return loose(expression)

    def reads(self, expression):
        fields, names = split(expression), []
        if not fields:
            return expression, names
        weekdays = []
        for item, low, high, step in items("weekday", fields["weekday"]):
            if low is not None and re.fullmatch(r"\w+/\d", item) and (7 - low) % step == 0:
                names.append("a/n ends at 6")
                if low < 7:
                    weekdays.append(f"{low}-6/{step}")
            elif re.fullmatch(r"(0|SUN)-SUN(/\d)?", item, re.I):
                names.append("SUN-SUN is 0-7")
                weekdays.append(f"0-7/{step}")
            else:
                weekdays.append(item)
        if names and not weekdays and not is_or(fields):
            return None, names
        if names:
            fields["weekday"] = ("+" if "+" in fields["weekday"] else "") + ",".join(weekdays) if weekdays else "*"
        if re.fullmatch(r"\*/\d+", fields.get("year", "")):
            step = int(fields["year"][2:])
            fields["year"] = f"{-(-1970 // step) * step}/{step}"
            names.append("year */n counts from 0")
        return join(fields), names

    def needs(self, expression):
        return []

    def skips(self, ours, offsets, zone, text, after, found):
        return None

    def moves(self, ours, offsets, questions):
        """Only `*` and `/` make a rhythm, not a list of all values."""
        answers = ours.next_of(questions, "fixed")
        return [("full list is a time of day", answer) if answer and self.only_full_lists(split(text)) else None
                for (text, _, _), answer in zip(questions, answers)]

    @staticmethod
    def only_full_lists(fields):
        times = {name: fields[name] for name in ("second", "minute", "hour") if name in fields}
        full = [name for name, text in times.items()
                if len({v for _, low, high, _ in items(name, text) if low is not None for v in range(low, high + 1)})
                == HIGHEST[name] + 1]
        return full and not re.search(r"[*/]", "".join(times.values()))

    def gives_up(self, case, after, ours, theirs):
        if ours is None and theirs is not None and theirs >= END:
            return "beyond 2199"
        return None
