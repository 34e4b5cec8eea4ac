#include "tests/simulation/world/replica_faults.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace escapement::simulation {
namespace {

using kv::MemLogEngine;

constexpr absl::Duration kBackupAge = absl::Seconds(4);
// A replica that yields to the older log leads it within this time.
constexpr absl::Duration kSetBackFor = absl::Seconds(12);

}  // namespace

ReplicaFaults::ReplicaFaults(sim::SimWorld& world, ReplicaSet& replicas, Tell tell)
    : world_(world),
      replicas_(replicas),
      tell_(std::move(tell)),
      random_(world.seed(), "replica faults") {}

ReplicaHost& ReplicaFaults::Any() {
  return *replicas_.hosts()[random_.Below(replicas_.hosts().size())];
}

ReplicaHost& ReplicaFaults::LeaderOrAny() {
  ReplicaHost& any = Any();
  ReplicaHost* leader = replicas_.leader();
  return leader != nullptr ? *leader : any;
}

void ReplicaFaults::Draw() {
  if (healed_ || whole_log_ != nullptr) return;
  switch (random_.Below(12)) {
    case 0:
    case 1:
      return KillOne(LeaderOrAny());
    case 2:
      return KillOne(Any());
    case 3:
    case 4:  // longer than the lease: it wakes up behind its successor
      return PauseOne(LeaderOrAny(), absl::Seconds(3), absl::Seconds(9));
    case 5:
      return PauseOne(Any(), absl::Milliseconds(100), absl::Seconds(4));
    case 6: {
      ReplicaHost& host = LeaderOrAny();
      if (!host.up()) return;
      tell_("replica stopped in order", absl::StrCat(host.name(), " is stopped in order"));
      return host.Stop([this, &host] { StartLater(host); });
    }
    case 7: {
      ReplicaHost& host = LeaderOrAny();
      tell_("handover", absl::StrCat(host.name(), " hands over"));
      return host.HandOver();
    }
    case 8:
      return CutFromLog(LeaderOrAny());
    case 9:
      return Noise();
    case 10:
      return Outage();
    default:
      return LoseShownRows();
  }
}

void ReplicaFaults::KillOne(ReplicaHost& host) {
  if (!host.up()) return;
  ++killed_;
  host.Kill();
  switch (random_.Below(4)) {
    case 0:
      tell_("replica killed, folder lost", absl::StrCat(host.name(), " loses its machine"));
      host.DeleteFolder();
      break;
    case 1:
      tell_("replica killed, folder set back",
            absl::StrCat(host.name(), " is killed and finds an older folder"));
      host.SetFolderBack();
      break;
    default:
      tell_("replica killed", absl::StrCat(host.name(), " is killed"));
      break;
  }
  StartLater(host);
}

void ReplicaFaults::StartLater(ReplicaHost& host) {
  world_.After(Lasting(absl::Milliseconds(50), absl::Seconds(8)), "start", [this, &host] {
    if (host.up()) return;
    tell_("", absl::StrCat(host.name(), " starts"));
    host.Start();
  });
}

void ReplicaFaults::PauseOne(ReplicaHost& host, absl::Duration low, absl::Duration high) {
  if (!host.up()) return;
  const absl::Duration pause = Lasting(low, high);
  tell_(host.leads() ? "leader paused" : "follower paused",
        absl::StrCat(host.name(), " stands still for ", absl::FormatDuration(pause)));
  host.Pause(pause);
}

void ReplicaFaults::CutFromLog(ReplicaHost& host) {
  const std::string name = host.name();
  const uint64_t lot = random_.Below(3);
  tell_("replica cut off from the log",
        absl::StrCat(name, " and the log are cut off", lot == 2 ? "" : ", one way"));
  MemLogEngine& engine = replicas_.engine();
  if (lot != 0) engine.Cut(name, MemLogEngine::Direction::kToEngine);
  if (lot != 1) engine.Cut(name, MemLogEngine::Direction::kToClient);
  world_.After(Lasting(absl::Milliseconds(300), absl::Seconds(9)), "log heals",
               [this, name] { replicas_.engine().Heal(name); });
}

void ReplicaFaults::Noise() {
  kv::MemLogFaults faults;
  faults.long_delays = static_cast<uint32_t>(random_.Below(100'000));
  faults.long_delay_max = Lasting(absl::Milliseconds(20), absl::Seconds(3));
  faults.calls_lost = static_cast<uint32_t>(random_.Below(50'000));
  faults.answers_lost = static_cast<uint32_t>(random_.Below(50'000));
  faults.blocked = static_cast<uint32_t>(random_.Below(100'000));
  tell_("loss and delay at the log", "the log is slow and loses calls and answers");
  replicas_.engine().set_faults(faults);
  world_.After(Lasting(absl::Seconds(1), absl::Seconds(8)), "quiet log",
               [this] { replicas_.engine().set_faults(kv::MemLogFaults()); });
}

void ReplicaFaults::Outage() {
  MemLogEngine& engine = replicas_.engine();
  if (random_.Below(2) == 0) {
    tell_("log restarts", "the log's engine restarts");
    return engine.Crash();
  }
  tell_("log without its standby", "the log's standby does not answer");
  engine.StopReplication();
  world_.After(Lasting(absl::Milliseconds(200), absl::Seconds(5)), "standby answers",
               [this] { replicas_.engine().ResumeReplication(); });
}

// Rows are committed and not replicated. The engine restarts and shows them, replicas apply them,
// and then its standby takes over without them. In between the leader may die, so that nobody
// appends the rows again.
void ReplicaFaults::LoseShownRows() {
  tell_("shown rows lost", "the log shows rows that it then loses");
  replicas_.engine().StopReplication();
  const absl::Duration committed = Lasting(absl::Milliseconds(100), absl::Milliseconds(900));
  const absl::Duration shown = committed + Lasting(absl::Milliseconds(60), absl::Seconds(1));
  world_.After(committed, "log restarts", [this] {
    if (healed_ || whole_log_ != nullptr) return;
    if (random_.Below(2) == 0) KillOne(LeaderOrAny());
    replicas_.engine().Crash();
  });
  world_.After(shown, "failover", [this] {
    if (whole_log_ != nullptr) return;
    tell_("", "the log's standby takes over");
    replicas_.engine().Failover();
  });
}

void ReplicaFaults::SetLogBack() {
  world_.After(kBackupAge, "set back",
               [this, backup = std::make_shared<const kv::MemLogState>(
                          replicas_.engine().replicated())] { TryToSetLogBack(backup); });
}

void ReplicaFaults::TryToSetLogBack(std::shared_ptr<const kv::MemLogState> backup) {
  if (healed_) return;
  // A copy that knows no more than the backup may follow it.
  for (const auto& host : replicas_.hosts()) {
    if (host->up() && host->proven_seq() > backup->state().last.seq) continue;
    world_.After(absl::Seconds(1), "set back", [this, backup] { TryToSetLogBack(backup); });
    return;
  }
  tell_("log set back", "all replicas end, and the log is set back to a backup");
  MemLogEngine& engine = replicas_.engine();
  for (const auto& host : replicas_.hosts()) {
    ++killed_;
    host->Kill();
  }
  whole_log_ = std::make_shared<const kv::MemLogState>(engine.replicated());
  engine.Restore(*backup);
  world_.After(absl::Milliseconds(100), "start", [this] { replicas_.StartAll(); });
  world_.After(kSetBackFor, "repair", [this] { RepairLog(); });
}

void ReplicaFaults::RepairLog() {
  if (whole_log_ == nullptr) return;
  tell_("", "the log is repaired");
  replicas_.engine().Restore(*whole_log_);
  whole_log_ = nullptr;
}

void ReplicaFaults::Heal() {
  healed_ = true;
  RepairLog();
  MemLogEngine& engine = replicas_.engine();
  engine.set_faults(kv::MemLogFaults());
  engine.ResumeReplication();
  for (const auto& host : replicas_.hosts()) engine.Heal(host->name());
  replicas_.StartAll();
}

}  // namespace escapement::simulation
