#include "services/handler/sending/send_loop.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/base/check.h"
#include "common/base/proto_time.h"
#include "common/runtime/perturb.h"
#include "common/storage/name_tables.h"
#include "common/storage/statistics_table.h"
#include "services/handler/base/options.h"

namespace escapement::handler {

namespace {

constexpr absl::Duration kPeriod = absl::Minutes(5);
constexpr double kMargin = 1.25;  // times the slowest commit

absl::Time FloorToTick(absl::Time time, absl::Duration tick) {
  return absl::UnixEpoch() + absl::Floor(time - absl::UnixEpoch(), tick);
}

}  // namespace

void ClaimLead::Step(absl::Time now, absl::Duration elapsed) {
  const absl::Time tick = FloorToTick(now, kClaimTick);
  if (tick <= stepped_) return;
  if (elapsed >= period_ + kPeriod) {
    slowest_before_ = elapsed >= period_ + 2 * kPeriod ? absl::ZeroDuration() : slowest_;
    slowest_ = absl::ZeroDuration();
    period_ = elapsed;
  }
  const absl::Duration wanted = std::clamp(kMargin * std::max(slowest_, slowest_before_),
                                           kClaimLead, std::max(kClaimLead, kClaimLeadMax));
  const absl::Duration step = (tick - stepped_) / 2;
  lead_ = std::clamp(wanted, lead_ - step, lead_ + step);
  extra_share_ = extra() > absl::ZeroDuration() ? absl::FDivDuration(extra(), kClaimLeadMax) : 0;
  stepped_ = tick;
}

absl::Time ClaimLead::LatestDueClaimedAt(absl::Time now) const {
  return FloorToTick(now, kClaimTick) + lead_ + kClaimTick;
}

absl::Time ClaimLead::ClaimTimeOf(absl::Time due) const {
  const absl::Duration since = due - absl::UnixEpoch() - lead_ - kClaimTick;
  return absl::UnixEpoch() + absl::Ceil(since, kClaimTick);
}

namespace {

constexpr uint64_t kSlowShare = 16;  // a slow target has 1/16 of the usual room
// Groups of one target whose bad results are counted. Further ones share the target's room.
constexpr size_t kGroupsMax = 1024;
// A probe of a half-open target is left to groups without trouble for this long. Within this time
// again, the troubled ones have their turns.
constexpr absl::Duration kProbeOfOthers = absl::Seconds(1);
// The lower bound of a target's limit of events out, unless target_events_out_max is less.
constexpr uint64_t kLimitMin = 256;
// How often the answers of a target are counted.
constexpr absl::Duration kCountEvery = absl::Milliseconds(100);
// The shortest time that is assumed for a count that is not over yet.
constexpr absl::Duration kCountMin = absl::Milliseconds(50);
// If more targets are kept, one without events out is forgotten at once, unless it is slow or down.
// Above twice this number it is forgotten even then.
constexpr size_t kTargetsKeptMax = 4096;
// Uses of targets by tenants that are counted. Above this, further ones are not shown to their
// tenants until others have been idle.
constexpr size_t kUsesMax = 16'384;
// Forgotten targets that are known to answer. Above this, all of them begin small again.
constexpr size_t kKnownTargetsMax = 65'536;
constexpr absl::Duration kRecheck = absl::Milliseconds(100);

// Between a target's key and a group in the key of a room.
constexpr char kGroupSeparator[] = "\n";

// The path's first two parts; of a URL without a path, nothing.
absl::string_view PathPrefix(absl::string_view uri) {
  const size_t scheme = uri.find("://");
  if (scheme == absl::string_view::npos) return "";
  uri.remove_prefix(scheme + 3);
  uri = uri.substr(0, uri.find_first_of("?#"));
  size_t begin = uri.find('/');
  if (begin == absl::string_view::npos) return "";
  size_t end = uri.find('/', begin + 1);
  if (end != absl::string_view::npos) end = uri.find('/', end + 1);
  return uri.substr(begin, end == absl::string_view::npos ? end : end - begin);
}

std::string GroupOf(const ClaimedEntry& entry) {
  if (!entry.one_off()) return absl::StrCat(kGroupSeparator, entry.key.uid.bytes());
  const storage::v1::TargetRecord& target = entry.context->definition->delivery().target();
  return absl::StrCat(kGroupSeparator, entry.event.tenant(), PathPrefix(target.http().uri()));
}

bool IsInMinute(int64_t micros, int64_t begin) {
  return micros >= begin && micros - begin < kMinuteMicros;
}

bool AsksForPause(const DeliveryResult& result) {
  return result.status == DeliveryStatus::kFailed && result.retry_after > absl::ZeroDuration();
}

// A status of 4xx is about the event: the target is up. A target that asks for a pause is up, too.
bool IsGood(const DeliveryResult& result) {
  return result.status == DeliveryStatus::kAccepted || result.status == DeliveryStatus::kRejected ||
         (result.status == DeliveryStatus::kFailed && result.status_code / 100 == 4) ||
         AsksForPause(result);
}

void CountUse(const DeliveryResult& result, absl::Duration now, TargetUse& use) {
  switch (result.status) {
    case DeliveryStatus::kAccepted:
      return use.OnSucceeded(now);
    case DeliveryStatus::kFailed:
    case DeliveryStatus::kRejected:
    case DeliveryStatus::kUnknown:
      return use.OnFailed(result.message, now);
    case DeliveryStatus::kUnsent:
      return use.OnUnsent();
  }
}

}  // namespace

// Collects results from any thread. Posts at most one closure at a time.
class SendLoop::Sink : public DeliverySink, public std::enable_shared_from_this<SendLoop::Sink> {
 public:
  Sink(SendLoop* loop, std::shared_ptr<Executor> executor)
      : executor_(std::move(executor)), loop_(loop) {}

  void OnResult(uint64_t tag, DeliveryResult result) override {
    {
      absl::MutexLock lock(&mutex_);
      results_.push_back({.tag = tag, .result = std::move(result)});
      if (std::exchange(posted_, true)) return;
    }
    Post();
  }

  void OnResults(std::vector<TaggedResult> results) override {
    {
      absl::MutexLock lock(&mutex_);
      if (results_.empty()) {
        results_ = std::move(results);
      } else {
        std::move(results.begin(), results.end(), std::back_inserter(results_));
      }
      if (std::exchange(posted_, true)) return;
    }
    Post();
  }

  std::vector<TaggedResult> Take() {
    absl::MutexLock lock(&mutex_);
    posted_ = false;
    return std::exchange(results_, {});
  }

  void Detach() { loop_ = nullptr; }

 private:
  // Without the lock, which the executor's thread takes as soon as it wakes.
  void Post() {
    executor_->Post([self = shared_from_this()] {
      if (self->loop_ != nullptr) self->loop_->OnResults();
    });
  }

  std::shared_ptr<Executor> executor_;
  SendLoop* loop_;  // used on the executor only
  absl::Mutex mutex_;
  std::vector<TaggedResult> results_ ABSL_GUARDED_BY(mutex_);
  bool posted_ ABSL_GUARDED_BY(mutex_) = false;
};

SendLoop::SendLoop(const HandlerOptions& options, const ClaimLead& lead, Runtime& runtime,
                   std::shared_ptr<Executor> executor, DeliveryTransport& transport,
                   HandlerMetrics& metrics, MinuteSums& statistics,
                   std::function<absl::Time()> store_time, std::function<void()> on_results)
    : options_(options),
      lead_(lead),
      runtime_(runtime),
      executor_(std::move(executor)),
      transport_(transport),
      metrics_(metrics),
      statistics_(statistics),
      store_time_(std::move(store_time)),
      on_results_(std::move(on_results)),
      sink_(std::make_shared<Sink>(this, executor_)) {}

SendLoop::~SendLoop() { sink_->Detach(); }

// Successive events mostly go to the same target.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline SendTarget* SendLoop::FindTarget(const std::string& room_key) {
  if (last_found_ != targets_.end() && last_found_->first == room_key) return &last_found_->second;
  return SearchTarget(room_key);
}

SendTarget* SendLoop::SearchTarget(const std::string& room_key) {
  last_found_ = targets_.find(room_key);
  return last_found_ == targets_.end() ? nullptr : &last_found_->second;
}

const std::string& SendLoop::RoomKey(const ClaimedEntry& entry) {
  const std::string& target_key = entry.context->target_key;
  const SendTarget* const target = FindTarget(target_key);
  if (target == nullptr || target->bad_groups.empty()) return target_key;
  const std::string group = GroupOf(entry);
  if (!IsTroubled(*target, group, runtime_.clock().Elapsed())) return target_key;
  room_key_ = absl::StrCat(target_key, group);
  TargetOf(room_key_);
  return room_key_;
}

bool SendLoop::IsTroubled(const SendTarget& target, const std::string& group,
                          absl::Duration elapsed) {
  const auto bad = target.bad_groups.find(group);
  if (bad == target.bad_groups.end()) return false;
  return bad->second.down ||
         (bad->second.count >= kTroubledAfter && elapsed - bad->second.since >= kTroubledFor);
}

uint64_t SendLoop::Room(const std::string& room_key) {
  const uint64_t most_of_all = OutMax();
  const uint64_t all = most_of_all - std::min(out_, most_of_all);
  SendTarget* const found = FindTarget(room_key);
  if (found == nullptr) {
    const uint64_t first = FirstPace(room_key).Allowed(0, runtime_.clock().Elapsed());
    return std::min({all, options_.target_events_out_max, kLimitMin, first});
  }
  SendTarget& target = *found;
  const absl::Duration elapsed = runtime_.clock().Elapsed();
  if (target.of != nullptr) {
    const size_t end = room_key.find(kGroupSeparator);
    const std::string group = room_key.substr(end);
    if (!IsTroubled(*target.of, group, elapsed)) return Room(room_key.substr(0, end));
    return std::min(all, RoomOfGroup(target, group, elapsed));
  }
  const uint64_t paced = target.pace.Allowed(target.out, elapsed);
  if (target.pace.IsPaused(elapsed)) target.full_since.reset();
  const uint64_t allowed = std::min(paced, target.breaker.Allowed(elapsed));
  if (paced == 0 || target.breaker.down_since().has_value()) return std::min(all, allowed);
  UpdateLimit(target, elapsed);
  const bool none_early = target.slow || lead_.extra() == absl::ZeroDuration();
  const uint64_t early =
      none_early ? 0 : static_cast<uint64_t>(target.rate * absl::ToDoubleSeconds(lead_.extra()));
  const uint64_t free = target.attempts.Free(target.timeout, elapsed);
  const uint64_t most =
      std::min(BoundOf(target) + early + free, options_.target_events_out_max + early);
  const uint64_t out = target.out - target.out_in_rooms;
  const uint64_t room = most - std::min(out, most);
  if (room == 0) {
    if (!target.full_since.has_value()) target.full_since = elapsed;
    if (elapsed - *target.full_since > kSlowTargetAfter) SetSlow(target, true);
  } else if (target.full_since.has_value()) {
    SetSlow(target, elapsed - *target.full_since > kSlowTargetAfter);
    target.full_since.reset();
  }
  return std::min({all, room, paced});
}

uint64_t SendLoop::RoomOfGroup(const SendTarget& room, const std::string& group,
                               absl::Duration elapsed) {
  const SendTarget& target = *room.of;
  if (target.breaker.state(elapsed) == CircuitBreaker::State::kHalfOpen) {
    const absl::Duration last = target.bad_groups.at(group).last;
    const auto older =
        std::count_if(target.bad_groups.begin(), target.bad_groups.end(),
                      [last](const auto& other) { return other.second.last < last; });
    const absl::Duration turn = kProbeOfOthers * older / target.bad_groups.size();
    if (elapsed < target.breaker.open_until() + kProbeOfOthers + turn) return 0;
  }
  const uint64_t limit = target.limit == 0 ? kLimitMin : target.limit;
  const uint64_t most = std::max<uint64_t>(limit / kSlowShare, 1);
  return std::min({target.breaker.Allowed(elapsed), target.pace.Allowed(target.out, elapsed),
                   room.breaker.Allowed(elapsed), most - std::min(target.out_in_rooms, most)});
}

// A slow target that answers some events well gets twice the room that these take, unless slow
// targets already have half of all.
uint64_t SendLoop::BoundOf(const SendTarget& target) const {
  const uint64_t limit =
      target.limit == 0 ? std::min(kLimitMin, options_.target_events_out_max) : target.limit;
  if (!target.slow) return std::max<uint64_t>(limit, 1);
  const uint64_t least = std::max<uint64_t>(limit / kSlowShare, 1);
  if (2 * out_of_slow_ >= OutMax()) return least;
  const uint64_t needed = static_cast<uint64_t>(2 * target.attempts.good_at_once());
  return std::clamp(needed, least, std::max(limit, least));
}

void SendLoop::SetSlow(SendTarget& target, bool slow) {
  if (target.slow == slow) return;
  target.slow = slow;
  if (slow) {
    out_of_slow_ += target.out;
  } else {
    TakeFrom(out_of_slow_, target.out);
  }
}

uint64_t SendLoop::OutMax() const {
  return static_cast<uint64_t>((1 + lead_.extra_share()) *
                               static_cast<double>(options_.events_out_max));
}

void SendLoop::UpdateLimit(SendTarget& target, absl::Duration elapsed) const {
  const absl::Duration counted = elapsed - target.counted_since;
  const bool over = target.limit == 0 || counted >= kCountEvery;
  if (!over && target.answers == 0) return;
  const double rate = target.limit == 0 ? 0
                                        : static_cast<double>(target.answers) /
                                              absl::ToDoubleSeconds(std::max(counted, kCountMin));
  const double answered = rate * absl::ToDoubleSeconds(target.timeout) / 4;
  uint64_t limit = std::min(kLimitMin, options_.target_events_out_max);
  // A target with few events sent may be able to answer more: its limit does not fall. Before the
  // count is over, the limit can only rise.
  const bool little = !over || 2 * target.most_sent < target.limit;
  if (little) limit = target.limit;
  target.rate = little ? std::max(target.rate, rate) : rate;
  target.limit = answered >= static_cast<double>(options_.target_events_out_max)
                     ? options_.target_events_out_max
                     : std::max(limit, static_cast<uint64_t>(answered));
  if (!over) return;
  target.most_sent = target.sent;
  target.answers = 0;
  target.counted_since = elapsed;
}

bool SendLoop::CountResult(const Slot& slot, const ClaimedEntry& entry,
                           const DeliveryResult& result, absl::Duration now) {
  const DeliveryContext& context = *entry.context;
  SendTarget& room = *CheckNotNull(FindTarget(entry.room_key()));
  SendTarget& target = room.of == nullptr ? room : *room.of;
  const bool answered = result.status != DeliveryStatus::kUnknown &&
                        result.status != DeliveryStatus::kUnsent && !result.not_sent;
  const bool silent = !answered && target.answers_ever == slot.answers_before;
  const bool good = IsGood(result);
  TakeFrom<uint64_t>(target.sent, 1);
  if (answered) {
    ++target.answers;
    ++target.answers_ever;
    target.timeout = context.timeout;
  }
  // The token manager pauses what the answer to an event with a token is about.
  const bool asks = AsksForPause(result);
  if (asks && entry.grant == nullptr && target.pace.OnPauseAsked(result.retry_after, now))
    metrics_.target_pauses.Increment();
  if (answered && !asks) target.pace.OnAnswered(slot.sent);
  if (&room == &target) {
    target.attempts.OnEnded(slot.sent, good, now);
  } else {
    TakeFrom<uint64_t>(room.sent, 1);
  }
  if (slot.use != nullptr) CountUse(result, now, *slot.use);
  if (result.status != DeliveryStatus::kUnsent && !result.not_sent && context.closed.empty())
    ++left_;
  CountAttempt(*target.transport, result.status, now - slot.sent);
  TellBreaker(slot, context, room, result.status, good, silent, now);
  if (good || ((result.status != DeliveryStatus::kUnsent || silent) && context.closed.empty()))
    NoteGroup(entry, target, good, now);
  Release(room, 1);
  return silent;
}

void SendLoop::CountInStatistics(const Slot& slot, const ClaimedEntry& entry, DeliveryStatus status,
                                 int64_t now_micros) {
  if (slot.use == nullptr || status == DeliveryStatus::kUnsent) return;
  if (counted_.use != slot.use) {
    CountTogether(now_micros);
    counted_.use = slot.use;
  }
  TargetUse::Attempts& attempts = counted_.attempts;
  if (entry.event.attempts() == 0) {
    const int64_t due = ToMicros(entry.key.due_time);
    const int64_t sent = slot.dispatch_micros;
    if (attempts.first > 0 &&
        (!IsInMinute(due, counted_.due_minute) || !IsInMinute(sent, counted_.sent_minute)))
      CountTogether(now_micros);
    if (attempts.first == 0) {
      attempts.due_micros = due;
      attempts.sent_micros = sent;
      counted_.due_minute = due - due % kMinuteMicros;
      counted_.sent_minute = sent - sent % kMinuteMicros;
    }
    ++attempts.first;
    if (sent - due > kLateMicros) ++attempts.late;
    attempts.lateness_max_micros = std::max(attempts.lateness_max_micros, sent - due);
  }
  ++attempts.ended;
  if (status != DeliveryStatus::kAccepted) ++attempts.errors;
}

void SendLoop::CountTogether(int64_t now_micros) {
  if (counted_.use != nullptr && counted_.attempts.ended > 0)
    counted_.use->Count(counted_.attempts, now_micros);
  counted_.attempts = {};
}

void SendLoop::NoteGroup(const ClaimedEntry& entry, SendTarget& target, bool good,
                         absl::Duration now) {
  if (good) {
    if (!target.bad_groups.empty()) target.bad_groups.erase(GroupOf(entry));
    return;
  }
  // While nothing is answered well, the target is in trouble, not the group. But others have the
  // next probe.
  const bool down = target.breaker.down_since().has_value();
  const std::optional<absl::Duration> last_good = target.attempts.last_good();
  if (!down && (!last_good.has_value() || *last_good + kBreakerWindow < now)) return;
  const std::string group = GroupOf(entry);
  std::map<std::string, SendTarget::BadResults>& groups = target.bad_groups;
  if (groups.size() >= kGroupsMax && !groups.contains(group)) {
    groups.erase(std::min_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
      return a.second.last < b.second.last;
    }));
  }
  SendTarget::BadResults& bad = groups[group];
  if (bad.count == 0 && !bad.down) bad.since = now;
  bad.last = now;
  if (down) {
    bad.down = true;
  } else {
    ++bad.count;
  }
}

void SendLoop::CountAttempt(TransportMetrics& transport, DeliveryStatus status,
                            absl::Duration took) {
  if (status == DeliveryStatus::kUnsent) return;
  if (status != DeliveryStatus::kAccepted) transport.failures.Increment();
  if (attempts_.transport != &transport || attempts_.took != took) {
    ObserveAttempts();
    attempts_ = {&transport, took, 0};
  }
  ++attempts_.count;
}

void SendLoop::ObserveAttempts() {
  if (attempts_.count == 0) return;
  attempts_.transport->attempt_seconds.Observe(absl::ToDoubleSeconds(attempts_.took),
                                               attempts_.count);
  attempts_.count = 0;
}

void SendLoop::TellBreaker(const Slot& slot, const DeliveryContext& context, SendTarget& room,
                           DeliveryStatus status, bool good, bool silent, absl::Duration now) {
  const bool none = !context.closed.empty() || (status == DeliveryStatus::kUnsent && !silent);
  for (SendTarget* target = &room; target != nullptr; target = target->of) {
    if (none) {
      target->breaker.OnNoResult(slot.sent);
    } else if (target->breaker.OnResult(good, slot.sent, now) && target->of == nullptr) {
      target->transport->openings.Increment();
    }
  }
}

bool SendLoop::IsSlow(const std::string& room_key) {
  const SendTarget* const found = FindTarget(room_key);
  return found != nullptr &&
         (found->slow || found->of != nullptr || found->breaker.down_since().has_value() ||
          found->pace.limited_by_pause());
}

std::optional<SendLoop::Hold> SendLoop::HoldOf(const std::string& room_key) {
  const SendTarget* target = FindTarget(room_key);
  const auto holds = [](const SendTarget& target) {
    return target.breaker.down_since().has_value() || target.pace.paused_since().has_value();
  };
  if (target == nullptr || (!holds(*target) && (target->of == nullptr || !holds(*target->of))))
    return std::nullopt;
  std::optional<absl::Duration> since;
  bool down = false;
  const absl::Duration now = runtime_.clock().Elapsed();
  for (; target != nullptr; target = target->of) {
    down = down || target->breaker.down_since().has_value();
    std::optional<absl::Duration> paused = target->pace.paused_since();
    if (paused.has_value() && target->pace.Allowed(target->out, now) > 0) paused.reset();
    for (const auto& each : {target->breaker.down_since(), paused}) {
      if (each.has_value()) since = std::min(since.value_or(*each), *each);
    }
  }
  if (!since.has_value()) return std::nullopt;
  return Hold{.lasted = now - *since, .down = down};
}

SendTarget* SendLoop::MainTarget(const std::string& room_key) {
  SendTarget* const found = FindTarget(room_key);
  return found == nullptr || found->of == nullptr ? found : found->of;
}

bool SendLoop::IsPaused(const std::string& room_key) {
  const SendTarget* const target = MainTarget(room_key);
  return target != nullptr && target->pace.limited_by_pause() &&
         target->pace.IsPaused(runtime_.clock().Elapsed());
}

void SendLoop::CutPause(const std::string& room_key, absl::Duration after) {
  SendTarget* const target = MainTarget(room_key);
  if (target != nullptr && target->pace.limited_by_pause())
    target->pace.Cut(runtime_.clock().Elapsed() + after);
}

TargetPace SendLoop::FirstPace(const std::string& target_key) const {
  return known_.contains(TargetIdOf(target_key)) ? TargetPace()
                                                 : TargetPace(options_.first_out_max);
}

SendTarget& SendLoop::TargetOf(const std::string& room_key) {
  if (SendTarget* const found = FindTarget(room_key); found != nullptr) return *found;
  SendTarget* of = nullptr;
  const size_t end = room_key.find(kGroupSeparator);
  if (end != std::string::npos) {
    of = &TargetOf(room_key.substr(0, end));
    ++of->rooms;
  }
  last_found_ = targets_.try_emplace(room_key).first;
  last_found_->second.transport = &metrics_.Of(room_key);
  last_found_->second.of = of;
  if (of == nullptr) last_found_->second.pace = FirstPace(room_key);
  return last_found_->second;
}

TargetUse* SendLoop::UseOf(SendTarget& target, const std::string& target_key,
                           absl::string_view tenant, absl::Duration now) {
  const auto found = target.uses.find(tenant);
  if (found != target.uses.end()) return &found->second;
  if (uses_ >= kUsesMax) return nullptr;
  ++uses_;
  TargetUse& use = target.uses.emplace(std::string(tenant), TargetUse(now)).first->second;
  use.CountFor(
      statistics_.Of(TargetStatistics(tenant, TargetIdOf(target_key)), kStatisticsTargetHoursMax),
      statistics_.Of(TenantStatistics(tenant)));
  return &use;
}

void SendLoop::Reserve(const std::string& room_key, uint64_t events) {
  SendTarget& room = TargetOf(room_key);
  for (SendTarget* target = &room; target != nullptr; target = target->of) {
    if (target->out == 0 || target->breaker.down_since().has_value()) {
      target->last_reserved = runtime_.clock().Elapsed();
      target->breaker.OnReserved(events, target->out - target->sent, target->last_reserved);
    }
    if (target->pace.limited_by_pause()) target->pace.OnReserved(runtime_.clock().Elapsed());
    target->out += events;
    if (target->slow) out_of_slow_ += events;
  }
  if (room.of != nullptr) room.of->out_in_rooms += events;
  out_ += events;
}

void SendLoop::Unreserve(const std::string& room_key, uint64_t events) {
  SendTarget* const found = FindTarget(room_key);
  CHECK(found != nullptr) << "nothing is reserved for " << room_key;
  for (SendTarget* target = found; target != nullptr; target = target->of)
    target->breaker.OnUnreserved(events);
  Release(*found, events);
}

void SendLoop::Release(SendTarget& room, uint64_t events) {
  CHECK(last_found_ != targets_.end() && &last_found_->second == &room);
  for (SendTarget* target = &room; target != nullptr; target = target->of) {
    TakeFrom(target->out, events);
    if (target->slow) TakeFrom(out_of_slow_, events);
  }
  if (room.of != nullptr) TakeFrom(room.of->out_in_rooms, events);
  TakeFrom(out_, events);
  if (room.out > 0 || room.rooms > 0 || targets_.size() <= kTargetsKeptMax) return;
  const bool in_trouble =
      room.slow || room.breaker.down_since().has_value() || room.pace.limited_by_pause();
  if (in_trouble && targets_.size() <= 2 * kTargetsKeptMax) return;
  Erase(last_found_);
}

std::map<std::string, SendTarget>::iterator SendLoop::Erase(
    std::map<std::string, SendTarget>::iterator target) {
  // counted_.use may be one of its uses.
  CountTogether(ToMicros(store_time_()));
  counted_.use = nullptr;
  uses_ -= target->second.uses.size();
  if (target->second.of != nullptr) {
    TakeFrom<uint64_t>(target->second.of->rooms, 1);
  } else if (target->second.pace.limited_by_pause()) {
    known_.erase(TargetIdOf(target->first));
  } else if (target->second.answers_ever > 0) {
    if (known_.size() >= kKnownTargetsMax) known_.clear();
    known_.insert(TargetIdOf(target->first));
  }
  last_found_ = targets_.end();
  return targets_.erase(target);
}

void SendLoop::Reset(const std::string& target_key, absl::Duration at) {
  for (auto room = targets_.lower_bound(target_key);
       room != targets_.end() && absl::StartsWith(room->first, target_key); ++room) {
    const size_t end = room->first.find(kGroupSeparator);
    if (room->first.compare(0, end, target_key) != 0) continue;
    const std::optional<absl::Duration> down = room->second.breaker.down_since();
    if (down.has_value() && *down <= at) room->second.breaker.Close();
    const std::optional<absl::Duration> paused = room->second.pace.paused_since();
    if (paused.has_value() && *paused <= at) room->second.pace.Reset();
    std::erase_if(room->second.bad_groups,
                  [at](const auto& group) { return group.second.since <= at; });
  }
}

void SendLoop::ForgetIdle(absl::Duration before) {
  const absl::Duration now = runtime_.clock().Elapsed();
  for (auto target = targets_.begin(); target != targets_.end();) {
    if (target->second.pace.IsPaused(now)) {
      ++target;
      continue;
    }
    auto& uses = target->second.uses;
    for (auto use = uses.begin(); use != uses.end();) {
      const bool idle = use->second.in_flight() == 0 && use->second.last_used() < before;
      if (idle) --uses_;
      use = idle ? uses.erase(use) : std::next(use);
    }
    const bool unused = uses.empty() && target->second.out == 0 && target->second.rooms == 0 &&
                        target->second.last_reserved < before;
    target = unused ? Erase(target) : std::next(target);
  }
  last_found_ = targets_.end();
}

void SendLoop::Add(std::shared_ptr<Claim> claim, uint32_t entry, uint64_t first, uint64_t count,
                   absl::Time due) {
  CHECK_LT(entry, claim->entries.size());
  CHECK(claim->entries[entry].context != nullptr);
  const Waiting waiting = {.order = {due, claim->entries[entry].key.lane},
                           .entry = entry,
                           .first = first,
                           .count = count};
  const bool follows = last_added_ != waiting_.end() && last_added_->second.claim == claim &&
                       last_added_->second.events.back().order <= waiting.order;
  if (!follows)
    last_added_ = waiting_.emplace(waiting.order, WaitingRun{.claim = std::move(claim)});
  last_added_->second.events.push_back(waiting);
}

std::optional<absl::Time> SendLoop::NextDue() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.begin()->first.first;
}

void SendLoop::SendDue(absl::Time now) {
  // The keys are strings of the contexts that the batch holds.
  std::map<absl::string_view, std::vector<DeliveryAttempt>> batches;
  auto batch = batches.end();  // the batch used last
  std::vector<std::pair<std::shared_ptr<Claim>, Waiting>> later;
  const absl::Duration elapsed = runtime_.clock().Elapsed();
  const bool held = !waiting_.empty() && waiting_.begin()->first.first <= now &&
                    Perturb(runtime_, Site::kHandlerSendsHeld);
  last_added_ = waiting_.end();
  while (!waiting_.empty() && waiting_.begin()->first.first <= now) {
    auto node = waiting_.extract(waiting_.begin());
    WaitingRun& run = node.mapped();
    const auto is_next = [&] {
      const DueOrder& order = run.events[run.next].order;
      return order.first <= now && (waiting_.empty() || order <= waiting_.begin()->first);
    };
    for (; run.next < run.events.size() && is_next(); ++run.next) {
      const Waiting& waiting = run.events[run.next];
      const ClaimedEntry& entry = run.claim->entries[waiting.entry];
      const std::string& target_key = entry.context->target_key;
      ClaimOwner* owner = run.claim->owner;
      const ClaimOwner::Check check =
          owner == nullptr ? ClaimOwner::Check::kEnded
          : held           ? ClaimOwner::Check::kWait
                 : owner->BeforeSend(run.claim, waiting.entry, waiting.first, waiting.count);
      switch (check) {
        case ClaimOwner::Check::kSend:
          if (batch == batches.end() || batch->first != target_key)
            batch = batches.try_emplace(target_key).first;
          Send(now, elapsed, run.claim, waiting, batch->second);
          break;
        case ClaimOwner::Check::kWait:
          later.emplace_back(run.claim, waiting);
          break;
        case ClaimOwner::Check::kEnded:
          Unreserve(entry.room_key(), waiting.count);
          break;
      }
    }
    if (run.next == run.events.size()) continue;
    node.key() = run.events[run.next].order;
    waiting_.insert(std::move(node));
  }
  ObserveLateness();
  for (auto& [claim, waiting] : later)
    Add(std::move(claim), waiting.entry, waiting.first, waiting.count, now + kRecheck);
  for (auto& [target, batch] : batches) transport_.Send(std::move(batch), sink_);
}

void SendLoop::Send(absl::Time now, absl::Duration elapsed, const std::shared_ptr<Claim>& claim,
                    const Waiting& waiting, std::vector<DeliveryAttempt>& batch) {
  const ClaimedEntry& entry = claim->entries[waiting.entry];
  const int64_t now_micros = ToMicros(now);
  SendTarget& room = *CheckNotNull(FindTarget(entry.room_key()));
  room.sent += waiting.count;
  CHECK_LE(room.sent, room.out) << "more is sent to " << entry.room_key() << " than is reserved";
  SendTarget& target = room.of == nullptr ? room : *room.of;
  target.pace.OnSent(elapsed);
  if (&room == &target) {
    target.attempts.OnSent(waiting.count, elapsed);
  } else {
    target.sent += waiting.count;
  }
  target.most_sent = std::max(target.most_sent, target.sent);
  const uint64_t answers_before = target.answers_ever;
  TargetUse* const use = UseOf(target, entry.context->target_key, entry.event.tenant(), elapsed);
  if (use != nullptr) use->OnSent(waiting.count, elapsed);
  const bool has_token = entry.grant != nullptr && entry.grant->on_release;
  CHECK(!has_token || token_maker_ != nullptr);
  for (uint64_t i = 0; i < waiting.count; ++i) {
    uint32_t place = 0;
    if (free_slots_.empty()) {
      place = static_cast<uint32_t>(slots_.size());
      slots_.emplace_back();
    } else {
      place = free_slots_.back();
      free_slots_.pop_back();
    }
    Slot& slot = slots_[place];
    slot.claim = claim;
    slot.entry = waiting.entry;
    slot.index = waiting.first + i;
    slot.dispatch_micros = now_micros;
    slot.sent = elapsed;
    slot.use = use;
    slot.answers_before = answers_before;
    batch.push_back({.tag = (uint64_t{slot.uses} << 32) | place,
                     .context = entry.context,
                     .event_id = entry.DeliveredId(slot.index),
                     .index = slot.index,
                     .attempt = entry.event.attempts() + 1,
                     .token = has_token ? token_maker_(entry.grant->id, slot.index) : ""});
  }
  if (entry.event.attempts() > 0) return;
  const absl::Duration late = now - waiting.order.first;
  if (lateness_.late != late) ObserveLateness();
  lateness_.late = late;
  lateness_.count += waiting.count;
}

void SendLoop::ObserveLateness() {
  if (lateness_.count == 0) return;
  metrics_.lateness_seconds.Observe(absl::ToDoubleSeconds(lateness_.late), lateness_.count);
  lateness_.count = 0;
}

void SendLoop::OnResults() {
  const absl::Duration now = runtime_.clock().Elapsed();
  const absl::Time store_time = store_time_();
  const int64_t now_micros = ToMicros(store_time);
  for (TaggedResult& result : sink_->Take()) {
    const uint32_t place = static_cast<uint32_t>(result.tag);
    CHECK_LT(place, slots_.size());
    Slot& slot = slots_[place];
    CHECK(slot.claim != nullptr && slot.uses == result.tag >> 32)
        << "a transport gave two results of one attempt";
    const std::shared_ptr<Claim> claim = std::exchange(slot.claim, nullptr);
    ++slot.uses;
    free_slots_.push_back(place);
    const ClaimedEntry& entry = claim->entries[slot.entry];
    CountInStatistics(slot, entry, result.result.status, now_micros);
    const bool silent = CountResult(slot, entry, result.result, now);
    if (claim->owner != nullptr) {
      claim->owner->OnResult(claim, {.entry = slot.entry,
                                     .index = slot.index,
                                     .dispatch_micros = slot.dispatch_micros,
                                     .time = store_time,
                                     .result = std::move(result.result),
                                     .silent = silent});
    }
  }
  ObserveAttempts();
  CountTogether(now_micros);
  counted_.use = nullptr;
  metrics_.deliveries.Increment(std::exchange(left_, 0));
  on_results_();
}

}  // namespace escapement::handler
