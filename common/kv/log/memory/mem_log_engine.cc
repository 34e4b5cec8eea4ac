#include "common/kv/log/memory/mem_log_engine.h"

#include <algorithm>
#include <utility>

namespace escapement::kv {

struct MemLogEngine::Connection {
  std::string client;
  std::shared_ptr<Executor> executor;  // the client's
  absl::Duration silence_max;
  std::function<void()> lost;
  bool broken = false;
  absl::Duration last_arrival;  // by the engine's clock, of both directions
};

MemLogEngine::MemLogEngine(Runtime& runtime)
    : runtime_(runtime), executor_(runtime.NewExecutor("mem-log-engine")) {}

MemLogEngine::~MemLogEngine() { executor_->Stop(); }

absl::Duration MemLogEngine::Between(absl::Duration low, absl::Duration high) {
  const int64_t nanos = absl::ToInt64Nanoseconds(high - low);
  if (nanos <= 0) return low;
  return low + absl::Nanoseconds(
                   static_cast<int64_t>(runtime_.random().Below(static_cast<uint64_t>(nanos))));
}

absl::Duration MemLogEngine::Delay() {
  return Chance(faults_.long_delays) ? Between(faults_.delay_min, faults_.long_delay_max)
                                     : Between(faults_.delay_min, faults_.delay_max);
}

std::shared_ptr<MemLogEngine::Connection> MemLogEngine::Connect(const std::string& client,
                                                                std::shared_ptr<Executor> executor,
                                                                absl::Duration silence_max,
                                                                std::function<void()> lost) {
  auto connection = std::make_shared<Connection>();
  connection->client = client;
  connection->executor = std::move(executor);
  connection->silence_max = silence_max;
  connection->lost = std::move(lost);
  std::erase_if(connections_, [](const auto& other) { return other.expired(); });
  connections_.push_back(connection);
  return connection;
}

bool MemLogEngine::IsCut(const Connection& connection, Direction direction) const {
  return cuts_.contains({connection.client, direction});
}

void MemLogEngine::Send(const std::shared_ptr<Connection>& connection, Closure call) {
  if (connection->broken) return;
  if (IsCut(*connection, Direction::kToEngine) || Chance(faults_.calls_lost))
    return Break(connection, /*silently=*/true);
  const absl::Duration now = runtime_.clock().Elapsed();
  connection->last_arrival = std::max(connection->last_arrival, now + Delay());
  // A connection that breaks later does not hold back what was sent: a call may take effect long
  // after its sender has given it up.
  executor_->PostAfter(connection->last_arrival - now, std::move(call));
}

void MemLogEngine::Answer(const std::shared_ptr<Connection>& connection, Closure answer) {
  if (connection->broken) return;
  if (IsCut(*connection, Direction::kToClient) || Chance(faults_.answers_lost))
    return Break(connection, /*silently=*/true);
  const absl::Duration now = runtime_.clock().Elapsed();
  connection->last_arrival = std::max(connection->last_arrival, now + Delay());
  executor_->PostAfter(connection->last_arrival - now,
                       [connection, answer = std::move(answer)]() mutable {
                         if (!connection->broken) connection->executor->Post(std::move(answer));
                       });
}

void MemLogEngine::Break(const std::shared_ptr<Connection>& connection, bool silently) {
  if (connection->broken) return;
  connection->broken = true;
  silently |= IsCut(*connection, Direction::kToClient);
  connection->executor->PostAfter(silently ? connection->silence_max : Delay(),
                                  [connection] { connection->lost(); });
}

void MemLogEngine::BreakAll() {
  for (const auto& weak : connections_) {
    if (const auto connection = weak.lock()) Break(connection, /*silently=*/false);
  }
}

void MemLogEngine::Cut(const std::string& client, Direction direction) {
  cuts_.insert({client, direction});
}

void MemLogEngine::Heal(const std::string& client) {
  cuts_.erase({client, Direction::kToEngine});
  cuts_.erase({client, Direction::kToClient});
}

void MemLogEngine::Disconnect(const std::string& client) {
  for (const auto& weak : connections_) {
    const auto connection = weak.lock();
    if (connection != nullptr && connection->client == client)
      Break(connection, /*silently=*/false);
  }
}

void MemLogEngine::Commit(const std::shared_ptr<Connection>& connection,
                          std::function<void(MemLogState&)> replay, Closure answer) {
  const absl::Duration earliest =
      unreplicated_.empty() ? absl::ZeroDuration() : unreplicated_.back().due;
  const absl::Duration due =
      std::max(earliest, runtime_.clock().Elapsed() +
                             Between(faults_.replication_min, faults_.replication_max));
  unreplicated_.push_back({std::move(replay), connection, std::move(answer), due});
  ScheduleReplication();
}

void MemLogEngine::Refuse(const std::shared_ptr<Connection>& connection, Closure answer) {
  // The server works on one call of a connection at a time.
  const bool waits = std::any_of(unreplicated_.begin(), unreplicated_.end(), [&](const Write& w) {
    return !shows_all_ || w.connection == connection;
  });
  if (waits) return Commit(connection, nullptr, std::move(answer));
  Answer(connection, std::move(answer));
}

void MemLogEngine::ScheduleReplication() {
  if (replication_scheduled_ || unreplicated_.empty() || !replicating_) return;
  replication_scheduled_ = true;
  executor_->PostAfter(
      std::max(absl::ZeroDuration(), unreplicated_.front().due - runtime_.clock().Elapsed()),
      [this] {
        replication_scheduled_ = false;
        Replicate();
        ScheduleReplication();
      });
}

void MemLogEngine::Replicate() {
  const absl::Duration now = runtime_.clock().Elapsed();
  while (replicating_ && !unreplicated_.empty() && unreplicated_.front().due <= now) {
    Write write = std::move(unreplicated_.front());
    unreplicated_.pop_front();
    const uint64_t last = replicated_.state().last.seq;
    if (write.replay) write.replay(replicated_);
    if (on_replicated_) {
      const auto& rows = replicated_.rows();
      for (auto row = rows.upper_bound(last); row != rows.end(); ++row) on_replicated_(row->second);
    }
    Answer(write.connection, std::move(write.answer));
  }
  if (unreplicated_.empty()) shows_all_ = false;
}

void MemLogEngine::ResumeReplication() {
  replicating_ = true;
  ScheduleReplication();
}

void MemLogEngine::Crash() {
  BreakAll();
  shows_all_ = !unreplicated_.empty();
}

void MemLogEngine::Failover() { Restore(replicated_); }

void MemLogEngine::Restore(MemLogState state) {
  BreakAll();
  unreplicated_.clear();
  replicated_ = std::move(state);
  committed_ = replicated_;
  shows_all_ = false;
  replicating_ = true;
}

}  // namespace escapement::kv
