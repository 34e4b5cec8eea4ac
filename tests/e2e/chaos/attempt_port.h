// AttemptPort: receives HTTP deliveries on a real socket. It notes the true time of each, passes it
// to a callback, and sends the answer when it gets one.
//
// It also knows something that only the receiving end can know: whether the sender surely read an
// answer. It did if the same connection brought another request afterwards.
//
// Threads: any. One thread of its own serves all connections, and calls `on_attempt`.

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

// A delivery as it arrived. Missing parts are empty or zero.
struct Attempt {
  size_t number = 0;  // 0, 1, 2 … in order of arrival at this port
  absl::Time time;
  std::string event_id, source, occurrence, token, body;
  uint64_t index = 0;
  uint64_t run_count = 1;
  uint32_t attempt = 0;
  absl::Time nominal, launch;
};

// The fate of an attempt's connection.
struct Fate {
  absl::Time answered = absl::InfiniteFuture();
  // When the sender ended it, with no other request after this one.
  absl::Time broken = absl::InfiniteFuture();
  bool read = false;  // the sender has surely read the answer
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

  // Answers an attempt, at most once. `header_lines` follow the status line; each ends with CR LF.
  // If the connection is gone, the answer is dropped. An attempt that is never answered hangs.
  void Answer(size_t number, int status, absl::string_view header_lines);

  // The fates of all attempts so far.
  std::vector<Fate> Fates() const;

 private:
  class Loop;
  explicit AttemptPort(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_ATTEMPT_PORT_H_
