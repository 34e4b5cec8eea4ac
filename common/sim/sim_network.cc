#include "common/sim/sim_network.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace escapement::sim {

bool SimNetwork::Lost(const std::string& from, absl::string_view to) {
  const bool blocked = !blocked_.empty() && blocked_.count({from, std::string(to)}) > 0;
  return blocked || random_.Chance(faults_.loss);
}

absl::Duration SimNetwork::Delay() {
  const absl::Duration high =
      random_.Chance(faults_.long_delay) ? faults_.long_delay_max : faults_.delay_max;
  return random_.Between(faults_.delay_min, high);
}

void SimNetwork::Send(const std::shared_ptr<ProcessState>& from, absl::string_view to,
                      std::function<void()> deliver, std::function<void()> if_absent) {
  if (from->dead || Lost(from->name, to)) return;
  if (random_.Chance(faults_.duplication)) Arrive(from, std::string(to), deliver, nullptr);
  Arrive(from, std::string(to), std::move(deliver), std::move(if_absent));
}

void SimNetwork::Arrive(std::shared_ptr<ProcessState> from, std::string to,
                        std::function<void()> deliver, std::function<void()> if_absent) {
  world_.After(Delay(), "arrival",
               [this, from = std::move(from), to = std::move(to), deliver = std::move(deliver),
                if_absent = std::move(if_absent)]() mutable {
                 std::shared_ptr<ProcessState> receiver = world_.Find(to);
                 if (receiver != nullptr) {
                   if (receiver->paused_until <= world_.Elapsed()) return deliver();
                   world_.At(world_.Elapsed(), std::move(receiver), world_.NewLine(), "message",
                             std::move(deliver));
                 } else if (if_absent != nullptr) {
                   world_.At(world_.Elapsed() + Delay(), std::move(from), world_.NewLine(),
                             "refused", std::move(if_absent));
                 }
               });
}

std::shared_ptr<SimNetwork::Stream> SimNetwork::OpenStream(std::shared_ptr<ProcessState> from,
                                                           std::shared_ptr<ProcessState> to) {
  auto stream = std::make_shared<Stream>(std::move(from), std::move(to), world_.NewLine());
  stream->last_arrival = world_.Elapsed();
  return stream;
}

bool SimNetwork::Send(Stream& stream, Closure deliver) {
  if (stream.broken || stream.from->dead || stream.to->dead ||
      Lost(stream.from->name, stream.to->name)) {
    stream.broken = true;
    return false;
  }
  stream.last_arrival = std::max(stream.last_arrival, world_.Elapsed() + Delay());
  world_.At(stream.last_arrival, stream.to, stream.line, "stream", std::move(deliver));
  return true;
}

}  // namespace escapement::sim
