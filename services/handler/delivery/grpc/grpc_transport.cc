#include "services/handler/delivery/grpc/grpc_transport.h"

#include <pthread.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "common/net/name_resolver.h"
#include "common/rpc/channel.h"
#include "escapement/storage/v1/records.pb.h"
#include "grpcpp/grpcpp.h"
#include "services/handler/delivery/grpc/lane.h"

namespace escapement::handler {

namespace {

// The shortest time between two ticks of a lane. A tick visits every unanswered attempt.
constexpr MonotonicMicros kTickMicrosMin = 500;

}  // namespace

// The lanes of all targets, and the thread that watches their deadlines.
class GrpcTransport::Core {
 public:
  explicit Core(const Options& options)
      : options_(WithDefaults(options)), thread_([this] { Run(); }) {}

  ~Core() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    thread_.join();
    for (auto& [key, lane] : lanes_) lane->Stop();
    for (auto& [key, lane] : replaced_) lane->Stop();
    ends_->AwaitAll();
  }

  void Send(std::vector<DeliveryAttempt> attempts, const std::shared_ptr<DeliverySink>& sink) {
    if (attempts.empty()) return;
    const Key key(attempts.front().context->target_key, NextTurn());
    // Keeps the definition while the lane reads it.
    const std::shared_ptr<const storage::v1::DefinitionRecord> definition =
        attempts.front().context->definition;
    while (true) {
      const std::shared_ptr<GrpcLane> lane = LaneOf(key, definition->delivery().target().grpc());
      if (lane->IsOld(MonotonicNow())) {
        Replace(key, lane);
        continue;
      }
      if (lane->Send(&attempts, sink)) return;
      Forget(key, lane);  // the lane was retired in between
    }
  }

 private:
  // Names a target and one of its streams.
  using Key = std::pair<std::string, int>;

  int NextTurn() {
    absl::MutexLock lock(&mutex_);
    turn_ = (turn_ + 1) % std::max(1, options_.streams_per_target);
    return turn_;
  }

  static Options WithDefaults(Options options) {
    if (options.addresses == nullptr) options.addresses = std::make_shared<const AddressRule>();
    return options;
  }

  std::shared_ptr<GrpcLane> LaneOf(const Key& key, const storage::v1::GrpcTargetRecord& target) {
    absl::MutexLock lock(&mutex_);
    std::shared_ptr<GrpcLane>& lane = lanes_[key];
    if (lane == nullptr)
      lane = std::make_shared<GrpcLane>(options_, target, *resolver_, ends_,
                                        [this](MonotonicMicros at) { TickBy(at); });
    return lane;
  }

  void TickBy(MonotonicMicros at) {
    absl::MutexLock lock(&mutex_);
    next_tick_ = std::min(next_tick_, at);
  }

  void Run() {
    pthread_setname_np(pthread_self(), "grpc-transport");
    while (AwaitTick()) {
      ends_->Drop();
      for (const auto& [key, lane] : LanesToTick()) {
        if (const std::optional<MonotonicMicros> next = lane->Tick(MonotonicNow())) {
          TickBy(*next);
        } else {
          Forget(key, lane);
        }
      }
    }
  }

  // False = stop.
  bool AwaitTick() {
    absl::MutexLock lock(&mutex_);
    const MonotonicMicros earliest = MonotonicNow() + kTickMicrosMin;
    while (!stopping_) {
      const MonotonicMicros now = MonotonicNow();
      const MonotonicMicros at = std::max(next_tick_, earliest);
      if (now >= at) break;
      watched_tick_ = next_tick_;
      const auto changed = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return stopping_ || next_tick_ < watched_tick_;
      };
      mutex_.AwaitWithTimeout(absl::Condition(&changed), at == kNeverMicros
                                                             ? absl::InfiniteDuration()
                                                             : absl::Microseconds(at - now));
    }
    next_tick_ = kNeverMicros;
    return !stopping_;
  }

  std::vector<std::pair<Key, std::shared_ptr<GrpcLane>>> LanesToTick() {
    absl::MutexLock lock(&mutex_);
    std::vector<std::pair<Key, std::shared_ptr<GrpcLane>>> lanes(lanes_.begin(), lanes_.end());
    lanes.insert(lanes.end(), replaced_.begin(), replaced_.end());
    return lanes;
  }

  // Further attempts get a new lane. This one stays until its attempts have ended and it is idle.
  void Replace(const Key& key, const std::shared_ptr<GrpcLane>& lane) {
    absl::MutexLock lock(&mutex_);
    const auto found = lanes_.find(key);
    if (found == lanes_.end() || found->second != lane) return;
    replaced_.emplace_back(key, lane);
    lanes_.erase(found);
  }

  void Forget(const Key& key, const std::shared_ptr<GrpcLane>& lane) {
    absl::MutexLock lock(&mutex_);
    const auto found = lanes_.find(key);
    if (found != lanes_.end() && found->second == lane) lanes_.erase(found);
    std::erase_if(replaced_, [&](const auto& replaced) { return replaced.second == lane; });
  }

  const Options options_;
  const std::unique_ptr<NameResolver> own_resolver_ =
      options_.resolver == nullptr ? std::make_unique<NameResolver>() : nullptr;
  NameResolver* const resolver_ =
      options_.resolver == nullptr ? own_resolver_.get() : options_.resolver;
  const std::shared_ptr<StreamEnds> ends_ = std::make_shared<StreamEnds>();
  absl::Mutex mutex_;
  std::map<Key, std::shared_ptr<GrpcLane>> lanes_ ABSL_GUARDED_BY(mutex_);
  // Old lanes that still have attempts, or had some within the idle_timeout.
  std::vector<std::pair<Key, std::shared_ptr<GrpcLane>>> replaced_ ABSL_GUARDED_BY(mutex_);
  int turn_ ABSL_GUARDED_BY(mutex_) = 0;
  MonotonicMicros next_tick_ ABSL_GUARDED_BY(mutex_) = kNeverMicros;
  // The condition that the thread waits for.
  MonotonicMicros watched_tick_ ABSL_GUARDED_BY(mutex_) = kNeverMicros;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

GrpcTransport::GrpcTransport(const Options& options) : core_(std::make_unique<Core>(options)) {}
GrpcTransport::~GrpcTransport() = default;

void GrpcTransport::Send(std::vector<DeliveryAttempt> attempts,
                         std::shared_ptr<DeliverySink> sink) {
  core_->Send(std::move(attempts), sink);
}

namespace {

// Consumers close the connection if pings come more often than gRPC's default limit of 5 minutes.
// TCP's user timeout, which is keepalive_timeout, detects a dead peer.
ChannelOptions ConsumerChannel(const GrpcTransport::Options& options) {
  ChannelOptions channel;
  channel.receive_bytes_max = 4 << 20;
  channel.reconnect_min = options.reconnect_min;
  channel.reconnect_max = options.reconnect_max;
  channel.connect_timeout = options.connect_timeout;
  channel.keepalive = absl::Minutes(6);
  channel.keepalive_timeout = absl::Seconds(20);
  return channel;
}

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(
    const storage::v1::GrpcTargetRecord& target) {
  if (!target.has_tls()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = target.tls().ca_certificates();
  options.pem_cert_chain = target.tls().client_certificate();
  options.pem_private_key = target.tls().client_key();
  return grpc::SslCredentials(options);
}

absl::StatusOr<HostPort> PlaceOf(absl::string_view uri) {
  for (const absl::string_view scheme : {"dns:///", "ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&uri, scheme)) break;
  }
  return ParseHostPort(uri);
}

// "ipv4:127.0.0.1:1,127.0.0.2:1".
std::string ChannelTarget(const std::vector<std::string>& addresses, uint16_t port) {
  const bool six = absl::StrContains(addresses.front(), ":");
  std::string target;
  for (const std::string& address : addresses) {
    if (absl::StrContains(address, ":") != six) continue;
    absl::StrAppend(&target, target.empty() ? (six ? "ipv6:" : "ipv4:") : ",",
                    HostPort{address, port}.ToString());
  }
  return target;
}

}  // namespace

TargetChannel::TargetChannel(const GrpcTransport::Options& options,
                             const storage::v1::GrpcTargetRecord& target)
    : options_(options), credentials_(CredentialsOf(target)), place_(PlaceOf(target.uri())) {}

bool TargetChannel::has_address() const {
  return place_.ok() && NameResolver::IsAddress(place_->host);
}

std::shared_ptr<grpc::Channel> TargetChannel::Open(
    const std::vector<std::string>& addresses) const {
  ChannelOptions channel = ConsumerChannel(options_);
  channel.credentials = credentials_;
  channel.authority = place_->ToString();
  return NewChannel(ChannelTarget(addresses, place_->port), channel);
}

}  // namespace escapement::handler
