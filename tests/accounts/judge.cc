#include "tests/accounts/judge.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace escapement::accounts {
namespace {

using Result = v1::Occurrence;
using Overlap = Traits::Overlap;
using Target = Traits::Target;
using Misfire = Traits::Misfire;

constexpr absl::Duration kThreshold = absl::Seconds(60);  // for misfires, and for ON_TIME
// An occurrence with nothing in its way is sent by then.
constexpr absl::Duration kPrompt = absl::Seconds(5);
// Rows are written at most so long before they are due.
constexpr absl::Duration kAhead = absl::Seconds(10);
// After a fault everything that waited is sent.
constexpr absl::Duration kBacklog = absl::Seconds(60);
// A slow target answers by then, and a handler that takes over waits so long.
constexpr absl::Duration kSlow = absl::Minutes(8);
constexpr absl::Duration kRetries = absl::Minutes(12);
constexpr absl::Duration kTravel = absl::Seconds(2);
// An event that was out at so many lost handlers is a dead letter. After one fewer such events are
// sent one at a time, which takes hours if their target is slow.
constexpr int64_t kLossesOfQuarantine = 3;
constexpr absl::Duration kSentAlone = absl::Hours(3);

std::string Text(absl::Time time) {
  return absl::FormatTime("%d %H:%M:%E3S", time, absl::UTCTimeZone());
}

class ScheduleJudge {
 public:
  ScheduleJudge(const Life& life, const std::vector<Row>& rows, const AccountTimes& account,
                const Faults& faults, const std::function<const Seen*(absl::Time)>& seen)
      : life_(life),
        traits_(life.traits),
        rows_(rows),
        account_(account),
        faults_(faults),
        seen_(seen) {}

  std::vector<std::string> Run() {
    Expect();
    Compare();
    if (traits_.overlap != Overlap::kAllow) CheckRunsApart();
    return std::move(breaches_);
  }

 private:
  template <typename... Parts>
  void Breach(const Row& row, const Parts&... parts) {
    breaches_.push_back(absl::StrCat(Text(row.nominal), " ", Result::Result_Name(row.result), " \"",
                                     row.reason, "\" ", parts...));
  }

  void Expect() {
    for (size_t i = 0; i < life_.versions.size(); ++i) {
      const Version& version = life_.versions[i];
      const absl::Time from =
          version.from + (i == 0 ? absl::Microseconds(1) : absl::ZeroDuration());
      const absl::Time to =
          i + 1 < life_.versions.size() ? life_.versions[i + 1].from : absl::InfiniteFuture();
      const std::vector<absl::Time> of_version =
          version.times.Between(std::max(account_.begin, from), std::min(account_.end, to));
      expected_.insert(expected_.end(), of_version.begin(), of_version.end());
    }
  }

  void Compare() {
    size_t next = 0;
    absl::Time last = absl::InfinitePast();
    for (const Row& row : rows_) {
      for (; next < expected_.size() && expected_[next] < row.nominal; ++next)
        breaches_.push_back(absl::StrCat(Text(expected_[next]), " is missing"));
      if (row.nominal <= last) {
        Breach(row, "is in it twice, or out of order");
      } else if (next == expected_.size() || expected_[next] != row.nominal) {
        Breach(row, "is in it, but nobody asked for it");
      } else {
        CheckRow(row);
        ++next;
      }
      last = std::max(last, row.nominal);
    }
    for (; next < expected_.size(); ++next)
      breaches_.push_back(absl::StrCat(Text(expected_[next]), " is missing"));
  }

  // The latest instant at which an occurrence of that time may still be unsent, or unanswered.
  absl::Time OpenUntil(absl::Time nominal) const {
    absl::Duration work = kPrompt;
    if (traits_.policy >= 0) work = absl::Seconds(30);
    // A run waits for the one before it.
    if (traits_.overlap != Overlap::kAllow) work = absl::Minutes(2);
    if (traits_.target == Target::kFlaky) work = kRetries;
    if (traits_.target == Target::kSlow) work = 2 * kSlow;
    absl::Time until = nominal + work;
    const auto wait_for = [&](const Windows& windows, absl::Duration more) {
      const absl::Time end = windows.Meeting(nominal - kAhead, until).second;
      if (end == absl::InfinitePast() || end + more <= until) return false;
      until = end + more;
      return true;
    };
    const absl::Duration more = std::max(work, kBacklog);
    for (bool longer = true; longer;) {
      longer = wait_for(faults_.emission, more) | wait_for(faults_.delivery, more);
      if (traits_.policy >= 0) longer |= wait_for(faults_.tokens, more);
      if (traits_.target == Target::kDown) longer |= wait_for(faults_.down, kRetries);
      for (const Pause& pause : life_.pauses) {
        if (pause.called > until || pause.resumed < nominal || pause.resumed + more <= until)
          continue;
        until = pause.resumed + more;
        longer |= until != absl::InfiniteFuture();
      }
    }
    return until;
  }

  // No process that matters was dead or frozen, and no change was made.
  bool Quiet(absl::Time begin, absl::Time end) const {
    if (faults_.emission.Meets(begin, end) || faults_.delivery.Meets(begin, end) ||
        (traits_.policy >= 0 && faults_.tokens.Meets(begin, end)))
      return false;
    return !PausedIn(begin, end) && !UpdatedIn(begin, end);
  }

  bool PausedIn(absl::Time begin, absl::Time end) const {
    return std::any_of(life_.pauses.begin(), life_.pauses.end(), [&](const Pause& pause) {
      return pause.called <= end && pause.resumed >= begin;
    });
  }

  bool UpdatedIn(absl::Time begin, absl::Time end) const {
    return std::any_of(
        life_.versions.begin() + 1, life_.versions.end(),
        [&](const Version& version) { return version.called <= end && version.answered >= begin; });
  }

  // Expected occurrences in (after, until].
  int64_t CountAfter(absl::Time after, absl::Time until) const {
    return std::upper_bound(expected_.begin(), expected_.end(), until) -
           std::upper_bound(expected_.begin(), expected_.end(), after);
  }

  static bool Fired(const Row& row) {
    return row.result == Result::ON_TIME || row.result == Result::LATE ||
           row.result == Result::FAILED;
  }

  void CheckRow(const Row& row) {
    const Seen* seen = seen_(row.nominal);
    if (row.nominal > account_.answered && row.result != Result::PENDING)
      return Breach(row, "is not due yet");
    switch (row.result) {
      case Result::ON_TIME:
      case Result::LATE:
        CheckSent(row, seen);
        break;
      case Result::FAILED:
        if ((seen == nullptr || seen->refused == 0) && !MayBeQuarantined(row.nominal))
          Breach(row, "its target has refused nothing");
        break;
      case Result::SKIPPED:
        CheckSkipped(row, seen);
        break;
      case Result::PENDING:
        if (OpenUntil(row.nominal) < account_.called && !MayBeSentAlone(row.nominal))
          Breach(row, "should have ended");
        break;
      default:
        Breach(row, "must never be");
    }
    if (Fired(row)) CheckMayFire(row);
  }

  int64_t HandlersLost(absl::Time begin, absl::Time end) const {
    return std::count_if(faults_.lost_handlers.begin(), faults_.lost_handlers.end(),
                         [&](absl::Time lost) { return lost >= begin && lost <= end; });
  }

  // Nothing bounds how long the events before it take, or the run before it.
  bool MayBeSentAlone(absl::Time nominal) const {
    absl::Duration before = kAhead;
    if (traits_.overlap != Overlap::kAllow) before = kSentAlone;
    return traits_.target == Target::kSlow &&
           HandlersLost(nominal - before, OpenUntil(nominal)) >= kLossesOfQuarantine - 1;
  }

  bool MayBeQuarantined(absl::Time nominal) const {
    const absl::Time until = MayBeSentAlone(nominal) ? account_.called : OpenUntil(nominal);
    return HandlersLost(nominal - kAhead, until) >= kLossesOfQuarantine;
  }

  void CheckSent(const Row& row, const Seen* seen) {
    if (traits_.target == Target::kRefuses) return Breach(row, "its target refuses everything");
    if (seen == nullptr || seen->accepted == 0)
      return Breach(row, "its target has accepted nothing");
    const absl::Time open = OpenUntil(row.nominal);
    if (seen->accepted != (1u << traits_.events) - 1 && !PausedIn(row.nominal, open) &&
        !UpdatedIn(row.nominal, open))
      Breach(row, "its target has accepted only ", seen->accepted);
    const absl::Time on_time = row.nominal + kThreshold;
    if (row.result == Result::ON_TIME && seen->last_new > on_time + kTravel)
      Breach(row, "was late: ", Text(seen->last_new));
    if (row.result == Result::LATE && seen->last_answer < on_time)
      Breach(row, "was on time: ", Text(seen->last_answer));
    if (row.result == Result::LATE && open <= on_time) Breach(row, "nothing has delayed it");
  }

  // Where the history says that an occurrence is skipped, it must be.
  void CheckMayFire(const Row& row) {
    const absl::Time nominal = row.nominal;
    for (const Pause& pause : life_.pauses) {
      if (nominal < pause.answered + kAhead || nominal >= pause.resume_called) continue;
      const int64_t later = CountAfter(nominal, pause.resume_called - absl::Microseconds(1));
      if (traits_.misfire == Misfire::kSkip || later >= traits_.catch_up ||
          (traits_.misfire == Misfire::kFireLatest && later > 0))
        Breach(row, "was due in a pause that skips it");
      for (size_t i = 1; i < life_.versions.size(); ++i) {
        const Version& version = life_.versions[i];
        if (nominal < version.from && version.called > pause.answered &&
            version.answered < pause.resume_called)
          Breach(row, "was due before an update in the same pause");
      }
    }
    if (traits_.misfire != Misfire::kSkip) return;
    const auto [begin, end] = faults_.no_emitter.Meeting(nominal, nominal);
    if (end == absl::InfinitePast() || nominal < begin + kAhead ||
        nominal + kThreshold + kTravel > end || PausedIn(begin, end + kAhead) ||
        UpdatedIn(begin, end + kAhead))
      return;
    Breach(row, "was due without an emitter, and misfires are skipped");
  }

  void CheckSkipped(const Row& row, const Seen* seen) {
    const absl::Time nominal = row.nominal;
    const absl::Time open = OpenUntil(nominal);
    // A handler may die after it has sent the event, before it has recorded that.
    if (seen != nullptr && seen->accepted != 0 && !faults_.delivery.Meets(nominal - kAhead, open))
      Breach(row, "its target has accepted ", seen->accepted);
    if (row.reason == "paused") {
      if (!MaySkipPaused(nominal, open)) Breach(row, "no pause skips it");
    } else if (row.reason == "misfire") {
      const bool far = traits_.misfire != Misfire::kFireAll || traits_.target == Target::kSlow;
      if (!far || faults_.emission.Meeting(nominal, nominal).second < nominal + kThreshold)
        Breach(row, "no emitter was away for so long");
    } else if (row.reason == "overlap") {
      CheckOverlap(row, open);
    } else if (row.reason == "superseded") {
      if (!UpdatedIn(nominal, open)) Breach(row, "no update has superseded it");
    } else {
      Breach(row, "an unknown reason");
    }
  }

  bool MaySkipPaused(absl::Time nominal, absl::Time open) const {
    for (const Pause& pause : life_.pauses) {
      if (pause.called > open || pause.resumed < nominal) continue;
      if (traits_.misfire == Misfire::kSkip) return true;
      const absl::Time until = std::min(pause.resumed, account_.end);
      const int64_t later = CountAfter(std::max(nominal, pause.called), until);
      // An occurrence from before the pause is skipped if one in the pause is.
      const int64_t more = nominal < pause.answered ? 1 : 0;
      const int64_t fire = traits_.misfire == Misfire::kFireLatest ? 1 : traits_.catch_up;
      if (later + more > fire || later >= fire) return true;
      for (size_t i = 1; i < life_.versions.size(); ++i) {
        const Version& version = life_.versions[i];
        if (nominal < version.answered && version.answered >= pause.called &&
            version.called <= pause.resumed)
          return true;
      }
    }
    return false;
  }

  void CheckOverlap(const Row& row, absl::Time open) {
    if (traits_.overlap == Overlap::kAllow) return Breach(row, "its runs may overlap");
    const absl::Duration before = traits_.target == Target::kSlow ? kSentAlone : 2 * kSlow;
    const bool quiet = Quiet(row.nominal - before, row.nominal + kAhead);
    const absl::Time launched = quiet ? row.nominal + kTravel : open;
    for (const absl::Time other : expected_) {
      const Seen* seen = other == row.nominal ? nullptr : seen_(other);
      if (seen != nullptr && seen->first <= launched && seen->last_answer + kTravel >= row.nominal)
        return;
    }
    // A run of a former version, or from before the range, may have been under way.
    if (quiet && row.nominal > account_.begin + 2 * kSlow) Breach(row, "no other run was active");
  }

  void CheckRunsApart() {
    std::vector<const Seen*> runs;
    for (const Row& row : rows_) {
      const Seen* seen = seen_(row.nominal);
      if (Fired(row) && seen != nullptr && Quiet(row.nominal - 2 * kSlow, row.nominal + 2 * kSlow))
        runs.push_back(seen);
    }
    std::sort(runs.begin(), runs.end(),
              [](const Seen* a, const Seen* b) { return a->first < b->first; });
    for (size_t i = 1; i < runs.size(); ++i) {
      if (runs[i]->first < runs[i - 1]->last_answer) {
        breaches_.push_back(absl::StrCat("runs of ", Text(runs[i - 1]->first), " and ",
                                         Text(runs[i]->first), " overlap"));
      }
    }
  }

  const Life& life_;
  const Traits& traits_;
  const std::vector<Row>& rows_;
  const AccountTimes& account_;
  const Faults& faults_;
  const std::function<const Seen*(absl::Time)>& seen_;
  std::vector<absl::Time> expected_;
  std::vector<std::string> breaches_;
};

}  // namespace

Windows::Windows(std::vector<std::pair<absl::Time, absl::Time>> windows) {
  std::sort(windows.begin(), windows.end());
  for (const auto& window : windows) {
    if (window.first >= window.second) continue;
    if (!windows_.empty() && window.first <= windows_.back().second) {
      windows_.back().second = std::max(windows_.back().second, window.second);
    } else {
      windows_.push_back(window);
    }
  }
}

Windows::Windows(const Windows& windows, absl::Duration longer) {
  std::vector<std::pair<absl::Time, absl::Time>> stretched = windows.windows_;
  for (auto& window : stretched) window.second += longer;
  *this = Windows(std::move(stretched));
}

Windows Windows::Common(const Windows& a, const Windows& b) {
  std::vector<std::pair<absl::Time, absl::Time>> common;
  for (const auto& left : a.windows_) {
    for (const auto& right : b.windows_) {
      common.emplace_back(std::max(left.first, right.first), std::min(left.second, right.second));
    }
  }
  return Windows(std::move(common));
}

std::pair<absl::Time, absl::Time> Windows::Meeting(absl::Time begin, absl::Time end) const {
  auto window =
      std::upper_bound(windows_.begin(), windows_.end(), end,
                       [](absl::Time time, const auto& each) { return time < each.first; });
  if (window == windows_.begin() || (--window)->second <= begin)
    return {absl::InfinitePast(), absl::InfinitePast()};
  return *window;
}

std::vector<std::string> Judge(const Life& life, const std::vector<Row>& rows,
                               const AccountTimes& account, const Faults& faults,
                               const std::function<const Seen*(absl::Time nominal)>& seen) {
  return ScheduleJudge(life, rows, account, faults, seen).Run();
}

}  // namespace escapement::accounts
