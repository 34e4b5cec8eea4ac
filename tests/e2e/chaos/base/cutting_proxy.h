// CuttingProxy: TCP links on loopback that can be cut and healed, each in its own way. It does to
// real processes what a network may do.
//
// A link listens on its own port and passes every connection on to one upstream address. Bytes in a
// cut direction stay in the kernel's buffers. So the sender meets a full window, as in a network
// that loses packets. A healed link delivers these bytes late, or resets its connections.
//
// Threads: any; one thread of its own moves the bytes.

#ifndef TESTS_E2E_CHAOS_BASE_CUTTING_PROXY_H_
#define TESTS_E2E_CHAOS_BASE_CUTTING_PROXY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace escapement::chaos {

enum class Cut : uint8_t {
  kNone,
  kReset,      // connections are reset, also new ones at once
  kBlackHole,  // connections are accepted, but no bytes pass
  kNoRequest,  // no bytes pass from the client to the upstream
  kNoAnswer,   // no bytes pass from the upstream to the client
  kSlow,       // every byte is late by Options::slow
  kTorn,       // some more bytes of each connection's requests pass, and then no more; the last
               // message may be cut in two
};

class CuttingProxy {
 public:
  struct Options {
    absl::Duration slow = absl::Milliseconds(150);
    size_t held_bytes_max = 256 << 10;  // limit for each direction of a connection that is slow
    // Requests of a torn connection: from this many bytes up to four times as many, by its number.
    size_t torn_bytes = 200;
  };

  static absl::StatusOr<std::unique_ptr<CuttingProxy>> Start(const Options& options);
  static absl::StatusOr<std::unique_ptr<CuttingProxy>> Start() { return Start(Options()); }
  ~CuttingProxy();
  CuttingProxy(const CuttingProxy&) = delete;
  CuttingProxy& operator=(const CuttingProxy&) = delete;

  // Adds a link to `upstream`: "127.0.0.1:port", or the path of a Unix socket. Returns the address
  // to connect to.
  absl::StatusOr<std::string> AddLink(const std::string& name, const std::string& upstream);
  // Further connections of the link go to `upstream`. The present ones are reset.
  absl::Status Redirect(const std::string& name, const std::string& upstream);

  // Returns when the cut is in force. kNone heals. With `reset` the link's connections are reset at
  // that moment, and the bytes that they held are lost.
  void Set(const std::string& name, Cut cut, bool reset = false);

  // How many connections the link has accepted so far.
  uint64_t connections(const std::string& name) const;

 private:
  class Loop;
  explicit CuttingProxy(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_BASE_CUTTING_PROXY_H_
