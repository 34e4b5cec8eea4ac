// SendLoop: holds claimed events until they are due, sends them, and takes their results.
// ClaimLead: how long before their due time rows are claimed.

#ifndef SERVICES_HANDLER_SENDING_SEND_LOOP_H_
#define SERVICES_HANDLER_SENDING_SEND_LOOP_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/runtime/runtime.h"
#include "common/statistics/minute_sums.h"
#include "services/handler/base/metrics.h"
#include "services/handler/base/options.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/sending/claim.h"
#include "services/handler/target_health/hanging_attempts.h"
#include "services/handler/target_health/target_pace.h"
#include "services/handler/target_health/target_use.h"

namespace escapement::handler {

// ClaimLead: how long before their due time rows are claimed.
//
// All rows that fall due in one tick are claimed together, in all shards at the same instant, so
// that their commits share one sync. The lead is 1.25 times the slowest claim commit of the last
// five to ten minutes, within bounds: a disk that was slow once will be slow again, and events that
// are claimed early enough are still sent in time.
//
// Threads: one, the handler's executor.
class ClaimLead {
 public:
  // Notes that the commit of a claim took this long.
  void OnCommitted(absl::Duration took) { slowest_ = std::max(slowest_, took); }

  // Moves the lead towards its target, by at most half a tick per tick, so that a tick claims at
  // most one and a half times its usual rows. `now` is store time, `elapsed` is Clock::Elapsed.
  void Step(absl::Time now, absl::Duration elapsed);

  // Rows that are due at this time or earlier are claimed at `now`.
  absl::Time LatestDueClaimedAt(absl::Time now) const;
  // When a row that is due at `due` is claimed with the present lead: the lead before `due`, or up
  // to one kClaimTick earlier.
  absl::Time ClaimTimeOf(absl::Time due) const;

  // The part of the lead beyond kClaimLead.
  absl::Duration extra() const { return lead_ - kClaimLead; }
  // extra() as a share of kClaimLeadMax.
  double extra_share() const { return extra_share_; }

 private:
  absl::Duration lead_ = kClaimLead;
  double extra_share_ = 0;
  absl::Time stepped_ = absl::InfinitePast();  // the last tick of Step
  // The slowest commit of this period and of the period before it.
  absl::Duration slowest_ = absl::ZeroDuration();
  absl::Duration slowest_before_ = absl::ZeroDuration();
  absl::Duration period_ = absl::ZeroDuration();  // when this period began, Clock::Elapsed
};

// A target that was used in the last minutes, or the room of a troubled group of its events.
struct SendTarget {
  uint64_t out = 0;        // reserved events: claimed and not answered
  uint64_t sent = 0;       // the part of `out` that is sent
  uint64_t most_sent = 0;  // the highest `sent` since `counted_since`
  uint64_t limit = 0;      // for `out`, without events claimed early; 0: not set yet
  double rate = 0;         // answers a second
  bool slow = false;
  std::optional<absl::Duration> full_since;  // Clock::Elapsed
  // Answers since `counted_since`. A target may have as many events out as it answers in a quarter
  // of its timeout, so that events do not time out while they wait for a connection.
  uint64_t answers = 0;
  uint64_t answers_ever = 0;
  absl::Duration counted_since;  // Clock::Elapsed
  absl::Duration timeout;
  absl::Duration last_reserved;  // Clock::Elapsed; when `out` was 0 before
  CircuitBreaker breaker;
  TargetPace pace;                                     // not used in the room of a troubled group
  std::map<std::string, TargetUse, std::less<>> uses;  // by tenant
  TransportMetrics* transport = nullptr;               // set when the target is made

  HangingAttempts attempts;  // in the target's own room

  // Groups of events whose last results were bad. Times are Clock::Elapsed.
  struct BadResults {
    uint32_t count = 0;  // while the target answered others well
    bool down = false;   // one came while the target was down
    absl::Duration since;
    absl::Duration last;
  };
  std::map<std::string, BadResults> bad_groups;
  // The target, if this is the room of a troubled group. Its `out` and `sent` include those of
  // all these rooms.
  SendTarget* of = nullptr;
  uint64_t rooms = 0;         // how many there are
  uint64_t out_in_rooms = 0;  // the part of `out` that is in them
};

// SendLoop: holds claimed events until they are due, sends them, and takes their results. Bounds
// how many events are out, in all and per target.
//
// Room is reserved before a claim is made, so that claimed events can be sent at their due time.
//
// Each target has a circuit breaker. While the breaker is open, the target has no room, so that its
// events wait as they do for a full target. Accepted and rejected attempts are good results,
// because the target answered, and so are failed ones with a status from 400 to 499. Other failed
// and unknown ones are bad, and so are unsent ones if the target answered nothing while they
// waited. Attempts that were never sent because the target's secrets cannot be opened
// (DeliveryContext::closed) are no results.
//
// An answer with retry_after pauses the target (TargetPace): it has no room until then, for events
// of all shards, and little at first. The answer is a good result, whatever its status: a paused
// target is not down. The answer to an event with a token does not pause the target: the token
// manager pauses what the answer is about. A target that has not answered yet begins with little
// room, too. The ids of targets that have answered are kept longer than the targets.
//
// Some events of a target may hang while others are answered well. Two rules keep room for the
// others:
//
// - Attempts that hang take no room (HangingAttempts).
// - Events form groups: those of a schedule, or one-off events by tenant and the first two parts of
//   the path. A group is troubled when its results of kTroubledFor, and at least kTroubledAfter,
//   were bad while the target answered others well, or when one was bad while the target was down.
//   The troubled groups of a target share 1/16 of its room, and each has a breaker of its own. A
//   good result ends the trouble. So events that hang and are due first do not take every probe.
//
// Threads: one, the handler's executor. Results may come from any thread; they are posted to the
// executor in batches.
class SendLoop {
 public:
  // Makes the token of an event that the consumer must give back.
  using TokenMaker = std::function<std::string(const GrantId& grant, uint64_t index)>;

  // Calls `on_results` on `executor` after the owners of the claims have got a batch of results.
  // `store_time`: KvClient::NowLow. `options`, `lead`, `runtime`, `transport`, `metrics` and
  // `statistics` must outlive it.
  SendLoop(const HandlerOptions& options, const ClaimLead& lead, Runtime& runtime,
           std::shared_ptr<Executor> executor, DeliveryTransport& transport,
           HandlerMetrics& metrics, MinuteSums& statistics, std::function<absl::Time()> store_time,
           std::function<void()> on_results);
  ~SendLoop();

  // Must be called before the first claim with on_release is added.
  void SetTokenMaker(TokenMaker maker) { token_maker_ = std::move(maker); }

  // Whose room events of the entry take: the key of their target, or the key and the group while
  // the group is troubled. Valid until the next call.
  const std::string& RoomKey(const ClaimedEntry& entry);
  // How many more events may be claimed for this room. This is its limit less its events out, plus
  // the events that it answers during ClaimLead::extra. Also notes since when the target is full.
  // While its breaker is open: 0. While it is half open: 1 until the probe is reserved.
  uint64_t Room(const std::string& room_key);
  // True if the target has been full for long, or its breaker is not closed, or it has little room
  // because of a pause, or if this is the room of a troubled group.
  bool IsSlow(const std::string& room_key);
  // Why the target takes no event now, and for how long events have been waiting for it.
  struct Hold {
    absl::Duration lasted;
    bool down = false;  // its breaker is not closed; else it has asked for pauses
  };
  std::optional<Hold> HoldOf(const std::string& room_key);
  // True if nothing may be sent to the target, because it has asked for a pause.
  bool IsPaused(const std::string& room_key);
  // An event that waits for the target would be too old `after` this time: the target's pause ends
  // by then (TargetPace::Cut).
  void CutPause(const std::string& room_key, absl::Duration after);
  void Reserve(const std::string& room_key, uint64_t events);
  void Unreserve(const std::string& room_key, uint64_t events);

  // Sends events [first, first + count) of the entry once store time has reached `due`. Events that
  // are due together leave in the order of their lanes. The caller has reserved them with the
  // entry's room_key().
  void Add(std::shared_ptr<Claim> claim, uint32_t entry, uint64_t first, uint64_t count,
           absl::Time due);

  // `now` is KvClient::NowLow().
  void SendDue(absl::Time now);
  // The due time of the next waiting event.
  std::optional<absl::Time> NextDue() const;

  uint64_t out() const { return out_; }
  bool full() const { return out_ >= OutMax(); }

  // The targets that were used in the last minutes, by their key. Among them are rooms of troubled
  // groups, without uses.
  const std::map<std::string, SendTarget>& targets() const { return targets_; }
  // How many events the target may have out, whatever its breaker says.
  uint64_t BoundOf(const SendTarget& target) const;
  // The target counts as if it had answered well at `at` (Clock::Elapsed) and had asked for no
  // pause before, and none of its groups as troubled before.
  void Reset(const std::string& target_key, absl::Duration at);
  // Forgets uses without an attempt since `before` (Clock::Elapsed), and targets without uses that
  // were not reserved since then, except those of paused targets.
  void ForgetIdle(absl::Duration before);

 private:
  class Sink;
  using DueOrder = std::pair<absl::Time, uint8_t>;  // due time and lane
  struct Waiting {
    DueOrder order;
    uint32_t entry = 0;
    uint64_t first = 0;
    uint64_t count = 0;
  };
  // Events of one claim that wait, in their order. The claims of the shards are merged when their
  // events are due.
  struct WaitingRun {
    std::shared_ptr<Claim> claim;
    std::vector<Waiting> events = {};
    size_t next = 0;  // the first that still waits
  };
  // An attempt under way. Its tag consists of its slot number and the slot's `uses`.
  struct Slot {
    std::shared_ptr<Claim> claim;
    uint32_t entry = 0;
    uint32_t uses = 0;
    uint64_t index = 0;
    int64_t dispatch_micros = 0;
    absl::Duration sent;          // Clock::Elapsed
    TargetUse* use = nullptr;     // null: is not counted
    uint64_t answers_before = 0;  // answers_ever of the target at the send
  };
  // `elapsed` is Clock::Elapsed at `now`.
  void Send(absl::Time now, absl::Duration elapsed, const std::shared_ptr<Claim>& claim,
            const Waiting& waiting, std::vector<DeliveryAttempt>& batch);
  void ObserveLateness();
  void OnResults();
  // Counts the result of the slot's attempt. True if the target has answered nothing since the
  // attempt was sent.
  bool CountResult(const Slot& slot, const ClaimedEntry& entry, const DeliveryResult& result,
                   absl::Duration now);
  // Counts the attempt for the statistics of its tenant and target. `now_micros`: store time.
  void CountInStatistics(const Slot& slot, const ClaimedEntry& entry, DeliveryStatus status,
                         int64_t now_micros);
  // Gives the attempts that CountInStatistics has counted together to their use.
  void CountTogether(int64_t now_micros);
  void CountAttempt(TransportMetrics& transport, DeliveryStatus status, absl::Duration took);
  // Observes the attempts that CountAttempt has counted together.
  void ObserveAttempts();
  void TellBreaker(const Slot& slot, const DeliveryContext& context, SendTarget& target,
                   DeliveryStatus status, bool good, bool silent, absl::Duration now);
  // Counts a good or bad result for the entry's group.
  void NoteGroup(const ClaimedEntry& entry, SendTarget& target, bool good, absl::Duration now);
  static bool IsTroubled(const SendTarget& target, const std::string& group,
                         absl::Duration elapsed);
  // The room that the other troubled groups and the two breakers leave to a group. Probes are left
  // to groups without trouble for a second, and then to the groups in turn: those whose last bad
  // result is the oldest go first.
  static uint64_t RoomOfGroup(const SendTarget& room, const std::string& group,
                              absl::Duration elapsed);
  void SetSlow(SendTarget& target, bool slow);
  // Gives room back. The target may be forgotten.
  void Release(SendTarget& target, uint64_t events);
  // Null if the target was not used in the last minutes.
  SendTarget* FindTarget(const std::string& room_key);
  SendTarget* SearchTarget(const std::string& room_key);  // the same, if it is not the last one
  // Makes the target if there is none.
  SendTarget& TargetOf(const std::string& room_key);
  // The target that gives room to this key: itself, or that of a troubled group. Null as above.
  SendTarget* MainTarget(const std::string& room_key);
  // The pace at which a target begins that was not used in the last minutes.
  TargetPace FirstPace(const std::string& target_key) const;
  // Forgets what `target` points to.
  std::map<std::string, SendTarget>::iterator Erase(
      std::map<std::string, SendTarget>::iterator target);
  // Null if too many uses are counted already.
  TargetUse* UseOf(SendTarget& target, const std::string& target_key, absl::string_view tenant,
                   absl::Duration now);
  // The bound for all targets together.
  uint64_t OutMax() const;
  void UpdateLimit(SendTarget& target, absl::Duration elapsed) const;

  const HandlerOptions& options_;
  const ClaimLead& lead_;
  Runtime& runtime_;
  std::shared_ptr<Executor> executor_;
  DeliveryTransport& transport_;
  HandlerMetrics& metrics_;
  MinuteSums& statistics_;
  std::function<absl::Time()> store_time_;
  std::function<void()> on_results_;
  TokenMaker token_maker_;
  std::shared_ptr<Sink> sink_;
  std::map<std::string, SendTarget> targets_;
  std::map<std::string, SendTarget>::iterator last_found_ = targets_.end();
  // The ids of targets that have answered without asking for a pause, and were forgotten. At most
  // kKnownTargetsMax. Never iterated.
  absl::flat_hash_set<Uid> known_;
  size_t uses_ = 0;  // counted uses, for all targets
  uint64_t out_ = 0;
  uint64_t out_of_slow_ = 0;                     // the part of `out_` that goes to slow targets
  std::string room_key_;                         // the last one that RoomKey has made
  std::multimap<DueOrder, WaitingRun> waiting_;  // by the order of the run's next event
  std::multimap<DueOrder, WaitingRun>::iterator last_added_ = waiting_.end();
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  // Results of one transport that took equally long, as those of one batch do. They are observed
  // together.
  struct {
    TransportMetrics* transport = nullptr;
    absl::Duration took;
    uint64_t count = 0;
  } attempts_;
  // First attempts that were equally late. They are observed together.
  struct {
    absl::Duration late;
    uint64_t count = 0;
  } lateness_;
  // Attempts of one use, for statistics: a batch has many that count in the same minutes.
  struct {
    const TargetUse* use = nullptr;
    TargetUse::Attempts attempts;
    int64_t due_minute = 0;   // microseconds at which it begins; only if attempts.first > 0
    int64_t sent_minute = 0;  // the same
  } counted_;
  uint64_t left_ = 0;  // attempts that left and that the metric does not count yet
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_SENDING_SEND_LOOP_H_
