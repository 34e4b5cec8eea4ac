// AttemptPort: where HTTP deliveries arrive at a real socket: it takes the true time of each, tells
// somebody else, and sends the answer when it is given.
//
// It also knows what only the receiving end can know of the other one: whether an answer was read
// for certain, since the same connection brought another request afterwards.
//
// Threads: any; one thread of its own serves all connections, and calls Options::on_attempt.

#ifndef TESTS_E2E_CHAOS_ATTEMPT_PORT_H_
#define TESTS_E2E_CHAOS_ATTEMPT_PORT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace escapement::chaos {

// A delivery as it arrived. What is absent is empty or zero.
struct Attempt {
  size_t number = 0;  // 0, 1, 2 … of the port, in order of time
  absl::Time time;
  std::string event_id, source, occurrence, token, body;
  uint64_t index = 0;
  uint64_t run_count = 1;
  uint32_t attempt = 0;
  absl::Time nominal, launch;
};

// What became of an attempt's connection.
struct Fate {
  absl::Time answered = absl::InfiniteFuture();
  absl::Time broken = absl::InfiniteFuture();  // by the sender, with no other request on it since
  bool read = false;                           // the sender has read the answer
};

class AttemptPort {
 public:
  // Serves 127.0.0.1 on any port. `on_attempt` must be quick.
  static absl::StatusOr<std::unique_ptr<AttemptPort>> Start(
      std::function<void(Attempt)> on_attempt);
  ~AttemptPort();
  AttemptPort(const AttemptPort&) = delete;
  AttemptPort& operator=(const AttemptPort&) = delete;

  std::string address() const;  // "127.0.0.1:port"

  // Whole lines, each ended by CR LF, come after the status line. At most once for an attempt; one
  // whose connection is gone is answered into the void. An attempt that is never answered hangs.
  void Answer(size_t number, int status, absl::string_view header_lines);

  // Of all attempts so far.
  std::vector<Fate> Fates() const;

 private:
  class Loop;
  explicit AttemptPort(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_ATTEMPT_PORT_H_
