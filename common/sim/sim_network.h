// SimNetwork: messages between the processes of a SimWorld, with loss, delay, duplication and
// partitions decided by the seed.
//
// A message is a closure that runs as an event of the receiving process: it waits while that
// process is paused, and dies with it. A message to a process that does not exist on arrival is
// lost.
//
// Threads: the world's.

#ifndef COMMON_SIM_SIM_NETWORK_H_
#define COMMON_SIM_SIM_NETWORK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/sim/sim_process.h"
#include "common/sim/sim_world.h"

namespace escapement::sim {

class SimNetwork {
 public:
  struct Faults {
    absl::Duration delay_min = absl::Microseconds(50);
    absl::Duration delay_max = absl::Microseconds(500);
    // All shares are in millionths of the messages.
    uint32_t loss = 0;
    uint32_t duplication = 0;
    uint32_t long_delay = 0;  // messages that may take up to long_delay_max
    absl::Duration long_delay_max = absl::Seconds(2);  // the longest of those delays
  };

  // `name` gives the network its own random stream.
  SimNetwork(SimWorld& world, absl::string_view name)
      : world_(world), random_(world.seed(), name) {}
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  void set_faults(Faults faults) { faults_ = faults; }
  const Faults& faults() const { return faults_; }

  // From now on nothing that `from` sends arrives at `to`. The other direction still works.
  void Block(const std::string& from, const std::string& to) { blocked_.insert({from, to}); }
  void Unblock(const std::string& from, const std::string& to) { blocked_.erase({from, to}); }
  void UnblockAll() { blocked_.clear(); }

  // The message may be lost, doubled (`deliver` runs twice) or late, or overtake others. It is
  // dropped if `from` is dead. If no process has the name on arrival, `if_absent` (may be empty)
  // runs at the sender, like a refused connection.
  void Send(const std::shared_ptr<ProcessState>& from, absl::string_view to,
            std::function<void()> deliver, std::function<void()> if_absent = nullptr);

  // A stream from one process to one incarnation of another: in order, never doubled. A lost
  // message breaks it.
  class Stream {
   public:
    Stream(std::shared_ptr<ProcessState> from, std::shared_ptr<ProcessState> to, uint64_t line)
        : from(std::move(from)), to(std::move(to)), line(line) {}
    const std::shared_ptr<ProcessState> from;
    const std::shared_ptr<ProcessState> to;
    const uint64_t line;
    absl::Duration last_arrival;
    bool broken = false;
  };
  std::shared_ptr<Stream> OpenStream(std::shared_ptr<ProcessState> from,
                                     std::shared_ptr<ProcessState> to);
  // Returns false if the stream is broken, or if this message breaks it and is lost.
  bool Send(Stream& stream, Closure deliver);

  SimWorld& world() { return world_; }

 private:
  bool Lost(const std::string& from, absl::string_view to);
  absl::Duration Delay();
  void Arrive(std::shared_ptr<ProcessState> from, std::string to, std::function<void()> deliver,
              std::function<void()> if_absent);

  SimWorld& world_;
  SimRandom random_;
  Faults faults_;
  std::set<std::pair<std::string, std::string>> blocked_;
};

}  // namespace escapement::sim

#endif  // COMMON_SIM_SIM_NETWORK_H_
