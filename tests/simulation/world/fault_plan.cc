#include "tests/simulation/world/fault_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace escapement::simulation {
namespace {

bool IsEmitter(const Host& host) { return absl::StartsWith(host.name(), "emitter"); }

}  // namespace

FaultPlan::FaultPlan(sim::SimWorld& world, Parts parts, Options options)
    : world_(world), parts_(std::move(parts)), options_(options), random_(world.seed(), "faults") {
  if (parts_.replicas == nullptr) return;
  replica_faults_ = std::make_unique<ReplicaFaults>(
      world, *parts_.replicas, [this](absl::string_view kind, absl::string_view what) {
        if (kind.empty()) return Tell(what);
        Tell(kind, what);
      });
}

void FaultPlan::Schedule() {
  for (int i = 0; i < options_.faults; ++i) {
    world_.After(random_.Between(options_.begin, options_.end), "fault", [this] { Draw(); });
  }
  for (int i = 0; i < options_.kills; ++i) {
    world_.After(random_.Between(options_.begin, options_.end), "fault", [this] {
      if (!healed_) CrashService(*parts_.services[random_.Below(parts_.services.size())]);
    });
  }
  for (int i = 0; i < options_.freezes; ++i)
    world_.After(random_.Between(options_.begin, options_.end), "fault", [this] { Freeze(); });
  for (int i = 0; i < options_.downtimes; ++i)
    world_.After(random_.Between(options_.begin, options_.end), "fault", [this] { Downtime(); });
  for (int i = 0; i < options_.cut_offs; ++i)
    world_.After(random_.Between(options_.begin, options_.end), "fault", [this] { CutOff(); });
  for (int i = 0; replica_faults_ != nullptr && i < options_.replica_faults; ++i) {
    world_.After(random_.Between(options_.begin, options_.end), "fault",
                 [this] { replica_faults_->Draw(); });
  }
  if (replica_faults_ != nullptr && options_.log_set_back) {
    world_.After(options_.begin + (options_.end - options_.begin) / 4, "fault",
                 [this] { replica_faults_->SetLogBack(); });
  }
  // In turn: each step is undone before the next one.
  for (int i = 0; i < options_.clock_steps; ++i) {
    const absl::Duration each = (options_.end - options_.begin) / options_.clock_steps;
    world_.After(options_.begin + i * each, "fault", [this] { StepClock(); });
    world_.After(options_.begin + i * each + each * 0.7, "fault", [this] { StepBack(); });
  }
  world_.After(options_.end, "heal", [this] { Heal(); });
}

void FaultPlan::Tell(absl::string_view what) { world_.Note(absl::StrCat("fault: ", what)); }

void FaultPlan::Tell(absl::string_view kind, absl::string_view what) {
  ++counts_[std::string(kind)];
  Tell(what);
}

void FaultPlan::Draw() {
  if (healed_) return;
  Host& host = *parts_.services[random_.Below(parts_.services.size())];
  switch (random_.Below(12)) {
    case 0:
    case 1:
    case 2:
      return CrashService(host);
    case 3:
      return RestartInOrder(host);
    case 4:
    case 5: {
      const absl::Duration pause = Lasting(absl::Milliseconds(200), absl::Seconds(12));
      Tell("service paused",
           absl::StrCat(host.name(), " stands still for ", absl::FormatDuration(pause)));
      return host.Pause(pause);
    }
    case 6:
      return CrashStore();
    case 7:
      return random_.Below(2) == 0 ? Partition(parts_.store_network, host.name(), StoreName())
                                   : Partition(parts_.store_network, StoreName(), host.name());
    case 8:
      return Noise(parts_.store_network);
    case 9:
      return ForgetSessions();
    case 10:
      if (options_.clock_steps == 0) WrongWallClock();
      return;
    default:
      return random_.Below(2) == 0 ? Noise(parts_.consumer_network)
                                   : Partition(parts_.consumer_network, "consumer", host.name());
  }
}

void FaultPlan::StartLater(Host& host, absl::Duration after) {
  world_.After(after, "start", [this, &host] {
    if (host.up()) return;
    if (IsEmitter(host) && world_.Now() < emitters_down_to_)
      return StartLater(host, emitters_down_to_ - world_.Now());
    Tell(absl::StrCat(host.name(), " starts"));
    host.Start();
  });
}

void FaultPlan::CrashService(Host& host) {
  if (!host.up()) return;
  Tell("service killed", absl::StrCat(host.name(), " is killed"));
  host.Kill();
  ++killed_;
  StartLater(host, Lasting(absl::Milliseconds(50), absl::Seconds(9)));
}

void FaultPlan::Poison(const std::string& handler) {
  for (Host* host : parts_.services) {
    if (host->name() != handler || !host->up()) continue;
    Tell("handler killed by an event", absl::StrCat(handler, " is killed by an event"));
    host->Kill();
    ++killed_;
    StartLater(*host, Lasting(absl::Milliseconds(50), absl::Seconds(3)));
  }
}

void FaultPlan::RestartInOrder(Host& host) {
  if (!host.up()) return;
  Tell("service stopped in order", absl::StrCat(host.name(), " is stopped"));
  host.Stop([this, &host] { StartLater(host, Lasting(absl::Milliseconds(50), absl::Seconds(3))); });
}

void FaultPlan::CrashStore() {
  if (replica_faults_ != nullptr) return replica_faults_->Draw();
  StoreHost& store = *parts_.single;
  if (!store.up()) return;
  if (random_.Below(4) == 0) {
    const absl::Duration pause = Lasting(absl::Milliseconds(100), absl::Seconds(4));
    Tell("store paused", absl::StrCat("the store stands still for ", absl::FormatDuration(pause)));
    store_still_to_ = std::max(store_still_to_, world_.Now() + pause);
    return store.Pause(pause);
  }
  ++killed_;
  const bool kept = random_.Below(2) == 0;
  Tell(kept ? "store killed, unsynced commits kept" : "store killed, unsynced commits lost",
       absl::StrCat("the store is killed", kept ? " after a sync that it told nobody of" : ""));
  if (kept) {
    store.KillAfterSync();
  } else {
    store.Kill();
  }
  StartLater(store, Lasting(absl::Milliseconds(50), absl::Seconds(4)));
}

void FaultPlan::ForgetSessions() {
  Tell("sessions forgotten", "the store forgets its sessions");
  parts_.store.ForgetSessions();
}

// Events must not be early, nor late after the operator's confirmation.
void FaultPlan::WrongWallClock() {
  absl::Duration offset = Lasting(-absl::Minutes(5), absl::Minutes(5));
  // The clock would follow a smaller offset by slewing at 500 ppm. Then the store could not know
  // true time.
  if (absl::AbsDuration(offset) < absl::Seconds(2)) offset = absl::Seconds(2);
  // A confirmation that is given while the store stands still takes effect when it goes on. So the
  // clock would have to be right at that later time.
  if (world_.Now() < store_still_to_) return;
  Tell("wrong wall clock",
       absl::StrCat("the store's wall clock leaps by ", absl::FormatDuration(offset)));
  parts_.store.SetWallClockOffset(offset, {});
  // Shorter than the time after which the store follows a step.
  world_.After(Lasting(absl::Seconds(1), absl::Seconds(4)), "clock set right", [this] {
    Tell("the store's wall clock is right again");
    parts_.store.SetWallClockOffset(absl::ZeroDuration(), {});
    // Replicas wait for the log before they take a confirmation. By then the clock could be wrong
    // again.
    if (replica_faults_ == nullptr) parts_.store.ConfirmClock();
  });
}

void FaultPlan::StepClock() {
  const uint64_t lot = random_.Below(4);
  // The store slews over a step of a second. It follows a step of minutes once that has lasted.
  absl::Duration by = lot == 0   ? absl::Seconds(1)
                      : lot == 1 ? absl::Minutes(2)
                                 : options_.clock_step;
  if (random_.Below(2) == 0) by = -by;
  // With a crash the clock is set while the store is down.
  if (random_.Below(3) == 0) CrashStore();
  const StoreSite::Evidence evidence = {.synchronised = random_.Below(2) == 0,
                                        .everywhere = random_.Below(2) == 0};
  Tell("clock leap", absl::StrCat("the store's wall clock is set by ", absl::FormatDuration(by),
                                  evidence.synchronised ? ", synchronised" : "",
                                  evidence.everywhere ? ", as everywhere" : ""));
  SetClocks(parts_.store.wall_clock_offset() + by, evidence);
}

void FaultPlan::SetClocks(absl::Duration offset, StoreSite::Evidence evidence) {
  parts_.store.SetWallClockOffset(offset, evidence);
  if (!evidence.everywhere) return;
  for (Host* host : parts_.services) host->SetWallClockOffset(offset);
}

void FaultPlan::Downtime() {
  if (healed_) return;
  const absl::Duration lasting = Lasting(absl::Seconds(7), absl::Seconds(18));
  emitters_down_to_ = std::max(emitters_down_to_, world_.Now() + lasting);
  Tell("no emitter", absl::StrCat("all emitters are down for ", absl::FormatDuration(lasting)));
  for (Host* host : parts_.services) {
    if (!IsEmitter(*host) || !host->up()) continue;
    host->Kill();
    ++killed_;
    StartLater(*host, lasting);
  }
}

void FaultPlan::CutOff() {
  std::vector<Host*> handlers;
  for (Host* host : parts_.services) {
    if (absl::StartsWith(host->name(), "handler")) handlers.push_back(host);
  }
  const std::string name = handlers[random_.Below(handlers.size())]->name();
  const absl::Duration lasting = Lasting(absl::Seconds(6), absl::Seconds(12));
  Tell("handler cut off from the store", absl::StrCat(name, " and the store are cut off"));
  sim::SimNetwork::Faults slow;
  slow.long_delay = 500'000;
  slow.long_delay_max = absl::Seconds(5);
  parts_.consumer_network.set_faults(slow);
  for (const std::string& store : parts_.store.processes()) parts_.store_network.Block(name, store);
  world_.After(lasting, "cut off no more", [this, name] {
    Tell(absl::StrCat(name, " and the store are not cut off any more"));
    for (const std::string& store : parts_.store.processes())
      parts_.store_network.Unblock(name, store);
    parts_.consumer_network.set_faults({});
  });
}

void FaultPlan::Freeze() {
  Host& host = *parts_.services[random_.Below(parts_.services.size())];
  const absl::Duration pause = Lasting(absl::Seconds(6), absl::Seconds(15));
  Tell("service paused",
       absl::StrCat(host.name(), " stands still for ", absl::FormatDuration(pause)));
  host.Pause(pause);
}

// Either the clocks are set right, with or without a confirmation, or the operator confirms the
// wrong time.
void FaultPlan::StepBack() {
  const uint64_t lot = random_.Below(4);
  if (lot < 2) {
    Tell("all wall clocks are set right");
    SetClocks(absl::ZeroDuration(), {.synchronised = random_.Below(2) == 0, .everywhere = true});
  }
  if (lot > 0) {
    Tell("the operator believes it");
    parts_.store.ConfirmClock();
  }
}

std::string FaultPlan::StoreName() {
  const std::vector<std::string> names = parts_.store.processes();
  return names.size() == 1 ? names.front() : names[random_.Below(names.size())];
}

void FaultPlan::Partition(sim::SimNetwork& network, const std::string& from,
                          const std::string& to) {
  Tell("one-way partition", absl::StrCat(from, " does not reach ", to));
  network.Block(from, to);
  world_.After(Lasting(absl::Milliseconds(300), absl::Seconds(10)), "unblock",
               [this, &network, from, to] {
                 Tell(absl::StrCat(from, " reaches ", to));
                 network.Unblock(from, to);
               });
}

void FaultPlan::Noise(sim::SimNetwork& network) {
  sim::SimNetwork::Faults faults;
  faults.loss = static_cast<uint32_t>(random_.Below(200'000));
  // Connections to consumers never deliver a message twice.
  if (&network == &parts_.store_network)
    faults.duplication = static_cast<uint32_t>(random_.Below(300'000));
  faults.long_delay = static_cast<uint32_t>(random_.Below(100'000));
  faults.long_delay_max = Lasting(absl::Milliseconds(10), absl::Seconds(4));
  Tell("loss, doubling and delay", absl::StrCat("noise: loss ", faults.loss, " duplication ",
                                                faults.duplication, " delay ", faults.long_delay));
  network.set_faults(faults);
  world_.After(Lasting(absl::Seconds(1), absl::Seconds(10)), "quiet", [this, &network] {
    Tell("quiet");
    network.set_faults({});
  });
}

void FaultPlan::Heal() {
  healed_ = true;
  Tell("all is healed");
  for (sim::SimNetwork* network : {&parts_.store_network, &parts_.consumer_network}) {
    network->UnblockAll();
    network->set_faults({});
  }
  SetClocks(absl::ZeroDuration(), {.synchronised = false, .everywhere = true});
  parts_.store.StartAll();
  if (replica_faults_ != nullptr) replica_faults_->Heal();
  // Posted, so that it does not run within the call that made it.
  world_.After(absl::Seconds(1), "confirm", [this] { parts_.store.ConfirmClock(); });
  for (Host* host : parts_.services) {
    if (!host->up()) host->Start();
  }
}

}  // namespace escapement::simulation
